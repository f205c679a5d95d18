// A PyTorch tensor while a program is imported: elements with an identity, so
// that what is written in place is seen by every view of the same storage.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "frontends/aten/ScalarType.h"
#include "frontends/emit/Emitter.h"

namespace polyrank::frontends::aten {

/// One step from a tensor to a view of it.
struct View {
  enum class Kind {
    Reshape,   // numbers: the shape
    Transpose, // numbers: the permutation, result dim i is dim numbers[i]
    Slice,     // numbers: dim, start, limit, stride
    Broadcast, // numbers: the shape; what is written into it would be ambiguous
    Detach,    // the same elements, through which no gradient passes
  };
  Kind kind;
  Shape numbers;
};

/// Graph values do not change, so a program that writes in place becomes one
/// that does not: a tensor refers to a *storage*, whose contents are replaced
/// by each write, through a chain of views. What is written through a view
/// becomes a new value of the whole storage, in which the region that the view
/// shows is the written one; a view that is read after such a write is derived
/// from the storage again.
///
/// ```
/// y = x[0]      # y: storage of x, views [slice 0, reshape]
/// y.add_(1)     # contents of the storage = concat(x[0] + 1, x[1:])
/// x.sum()       # reads the new contents
/// ```
class Tensor {
public:
  /// A new storage.
  Tensor(Imported contents, ScalarType type, bool isWrappedNumber = false);
  /// What an argument of @forward holds. Integers that are `known` are looked
  /// at (shapes and masks are computed from them) as long as nothing writes
  /// them. `isTrained`: it is a leaf of PyTorch's autograd, and stays one where
  /// the model writes it (under no_grad: autograd allows nothing else): what
  /// reads it later has its gradient in the parameter itself.
  static std::shared_ptr<Tensor> ofParameter(mlir::Value argument,
                                             ScalarType type,
                                             Imported known = {},
                                             bool isTrained = false);
  static std::shared_ptr<Tensor>
  viewOf(Emitter &emit, const std::shared_ptr<Tensor> &base, View view);

  ScalarType getType() const { return type; }
  /// Whether it was a Python number, which takes the other operands' type as
  /// long as that is of the same kind.
  bool isWrappedNumber() const { return isWrapped; }
  Shape getShape() const { return shape; }
  /// In elements of the storage, as PyTorch would have them: new tensors lie in
  /// row-major order. They say where a reshape is a view and where it copies.
  const Shape &getStrides() const { return strides; }
  bool isContiguous() const;
  int64_t getRank() const { return static_cast<int64_t>(shape.size()); }

  /// The elements as they are now.
  Imported read(Emitter &emit);
  /// Replaces the elements; `value` has its shape and element type. Where the
  /// storage is a parameter or buffer, that takes the new value in a step.
  /// After `prepareToWrite`.
  void write(Emitter &emit, const Imported &value);
  /// To be called before what is to be written is computed: an integer buffer
  /// whose elements were known is a value from here on. Returns why it cannot
  /// be written, else "".
  std::string prepareToWrite();
  /// Has `prepareToWrite` of this and of all views give `why`.
  void forbidWriting(std::string why) { storage->whyFixed = std::move(why); }
  /// What was given there, else "".
  const std::string &whyFixed() const { return storage->whyFixed; }

  /// Whether anything was written to the storage.
  bool isChanged() const { return storage->version != 0; }
  /// Whether both show the same elements of one storage.
  bool isSameAs(const Tensor &other) const;
  /// The argument of @forward that holds the tensor's storage, whole; null for
  /// others and for views.
  mlir::Value getParameter() const;

private:
  struct Storage {
    Imported contents;
    mlir::Value parameter; // the argument that keeps it from step to step
    uint64_t version = 0;
    bool isKnownBuffer = false, isTrained = false, wasRead = false;
    std::string whyFixed; // why nothing may be written, or ""
  };
  Tensor() = default;

  std::shared_ptr<Storage> storage;
  llvm::SmallVector<View, 2> views;
  ScalarType type = ScalarType::Float;
  bool isWrapped = false;
  Shape shape, strides;
  /// Contents seen through `views`, of the storage's version `seen`.
  Imported cached;
  uint64_t seen = 0;
};

/// The strides of the tensor under another shape of as many elements, where
/// that can be a view of it.
std::optional<Shape> stridesOfReshape(const Tensor &tensor,
                                      llvm::ArrayRef<int64_t> shape);

} // namespace polyrank::frontends::aten
