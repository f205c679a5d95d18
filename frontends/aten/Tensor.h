// A PyTorch tensor during import: elements with an identity, so that every view
// of a storage sees what is written to it in place.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "frontends/aten/ElementTypes.h"
#include "frontends/emit/Emitter.h"

namespace polyrank::frontends::aten {

/// One step from a tensor to a view of it.
struct View {
  enum class Kind {
    Reshape,   // numbers: the shape
    Transpose, // numbers: the permutation, result dim i is dim numbers[i]
    Slice,     // numbers: dim, start, limit, stride
    Broadcast, // numbers: the shape; not writable, as elements share memory
    Detach,    // the same elements, through which no gradient passes
  };
  Kind kind;
  Shape numbers;
};

/// Values of the graph are immutable, so a program that writes in place is
/// rewritten into one that does not. A tensor refers to a *storage* through a
/// chain of views, and each write replaces the contents of the storage. A write
/// through a view makes a new value of the whole storage, in which the region
/// that the view shows has the written elements. A view that is read after such
/// a write is derived from the storage again.
///
/// ```
/// y = x[0]      # y: storage of x, views [slice 0, reshape]
/// y.add_(1)     # contents of the storage = concat(x[0] + 1, x[1:])
/// x.sum()       # reads the new contents
/// ```
class Tensor {
public:
  /// Creates a new storage.
  Tensor(Imported contents, ElementType type, bool isWrappedNumber = false);
  /// The tensor of an argument of @forward. Integers that are `known` are used
  /// as constants (shapes and masks are computed from them) until something
  /// writes them. `isTrained`: the tensor is a leaf of PyTorch's autograd and
  /// stays one when the model writes it (autograd allows that only under
  /// no_grad), so what reads it later has its gradient in the parameter itself.
  static std::shared_ptr<Tensor> ofParameter(mlir::Value argument,
                                             ElementType type,
                                             Imported known = {},
                                             bool isTrained = false);
  static std::shared_ptr<Tensor>
  viewOf(Emitter &emit, const std::shared_ptr<Tensor> &base, View view);

  ElementType getType() const { return type; }
  /// True if it was a Python number, which takes the type of the other operands
  /// if that is of the same kind.
  bool isWrappedNumber() const { return isWrapped; }
  Shape getShape() const { return shape; }
  /// The strides in elements of the storage, as PyTorch would have them: new
  /// tensors are row-major. They decide whether a reshape is a view or a copy.
  const Shape &getStrides() const { return strides; }
  bool isContiguous() const;
  int64_t getRank() const { return static_cast<int64_t>(shape.size()); }

  /// The current elements.
  Imported read(Emitter &emit);
  /// Replaces the elements; `value` has the tensor's shape and element type. If
  /// the storage is a parameter or buffer, the step updates it to the new
  /// value. Call `prepareToWrite` first.
  void write(Emitter &emit, const Imported &value);
  /// Must be called before the value to be written is computed: from then on an
  /// integer buffer whose elements were known is a runtime value. Returns why
  /// the tensor cannot be written, else "".
  std::string prepareToWrite();
  /// Makes `prepareToWrite` of this tensor and of all its views return `why`.
  void forbidWriting(std::string why) { storage->whyFixed = std::move(why); }
  /// The reason given to `forbidWriting`, else "".
  const std::string &whyFixed() const { return storage->whyFixed; }

  /// True if anything was written to the storage.
  bool isChanged() const { return storage->version != 0; }
  /// True if both show the same elements of one storage.
  bool isSameAs(const Tensor &other) const;
  /// The argument of @forward whose storage this tensor shows unchanged and
  /// whole; null for other tensors and for views.
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
  ElementType type = ElementType::F32;
  bool isWrapped = false;
  Shape shape, strides;
  /// The contents seen through `views`, at version `seen` of the storage.
  Imported cached;
  uint64_t seen = 0;
};

/// The strides of the tensor after a reshape to `shape`; nullopt if the reshape
/// cannot be a view.
std::optional<Shape> stridesOfReshape(const Tensor &tensor,
                                      llvm::ArrayRef<int64_t> shape);

} // namespace polyrank::frontends::aten
