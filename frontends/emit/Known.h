// What a name in a model stands for while its graph is built: a value, or a
// tensor that is known already.

#pragma once

#include <memory>
#include <vector>

#include "dialects/graph/Graph.h"

namespace polyrank::frontends {

/// A tensor that is known now. Where its slices along a dim are all equal, one
/// may stand for them: masks of long sequences repeat along the batch.
class Known {
public:
  Known() = default;
  Known(graph::Tensor tensor);
  /// `slices` repeated along its dims of one to `shape`, of the same rank.
  Known(graph::Tensor slices, llvm::ArrayRef<int64_t> shape);

  explicit operator bool() const { return data != nullptr; }
  llvm::ArrayRef<int64_t> getShape() const { return data->shape; }
  const graph::Tensor &getSlices() const { return data->slices; }
  bool repeats() const {
    return getShape() != llvm::ArrayRef<int64_t>(getSlices().shape);
  }
  /// The whole tensor, made when it is first asked for.
  const graph::Tensor &operator*() const;
  const graph::Tensor *operator->() const { return &**this; }
  /// What stays the same for copies.
  const void *getKey() const { return data.get(); }

private:
  struct Data {
    graph::Tensor slices;
    llvm::SmallVector<int64_t> shape;
    std::unique_ptr<const graph::Tensor> whole;
  };
  std::shared_ptr<Data> data;
};

/// What a name in the model stands for: a value of the function that is being
/// built, a tensor that is known now, or a sequence of these. Empty where the
/// node that defines it could not be imported.
struct Imported {
  mlir::Value value;
  Known constant;
  std::shared_ptr<const std::vector<Imported>> sequence;
  /// The type in the file where that is an integer which is computed in a wider
  /// or a signed one: its width and whether it has a sign. Else null.
  mlir::IntegerType held;

  Imported() = default;
  Imported(mlir::Value value) : value(value) {}
  Imported(Known constant) : constant(std::move(constant)) {}
  Imported(graph::Tensor tensor) : constant(std::move(tensor)) {}
  Imported(std::vector<Imported> elements)
      : sequence(std::make_shared<const std::vector<Imported>>(
            std::move(elements))) {}

  explicit operator bool() const { return value || constant || sequence; }
  /// Known, and small enough to be looked at element by element.
  bool isConstant() const;
  /// Of a value or a constant.
  mlir::RankedTensorType getType() const;
  mlir::Type getElementType() const { return getType().getElementType(); }
  /// A copy: types of constants are made on request.
  llvm::SmallVector<int64_t> getShape() const;
  int64_t getRank() const;
};

/// Whether `x` is an argument of @forward that the model stores.
bool isParameter(const Imported &x);

using Shape = llvm::SmallVector<int64_t>;

/// "[8, 128]".
std::string toString(llvm::ArrayRef<int64_t> shape);

/// NumPy's broadcast of two shapes; failure where they do not go together.
mlir::FailureOr<Shape> broadcastShapes(llvm::ArrayRef<int64_t> a,
                                       llvm::ArrayRef<int64_t> b);

/// The number of elements; 2^62 for all numbers above. Negative dims count 0.
int64_t countElements(llvm::ArrayRef<int64_t> shape);
/// No tensor may have more elements than this.
constexpr int64_t maxElements = int64_t(1) << 42;
/// Known tensors of more elements than this stay slices, and are made at run
/// time.
constexpr int64_t maxFolded = int64_t(1) << 26;

/// The element type in which values are computed: float32 for every float.
mlir::Type toComputedType(mlir::Type elementType);

/// `tensor` in the element type in which values are computed. What is finite
/// stays so: a mask's lowest fp64 above all.
graph::Tensor toComputed(graph::Tensor tensor);

/// `tensor` repeated along its dims of one to `shape`, of the same rank.
graph::Tensor repeat(const graph::Tensor &tensor,
                     llvm::ArrayRef<int64_t> shape);

/// The dims of `tensor` along which not all slices are equal.
llvm::SmallVector<int64_t> varyingDims(const graph::Tensor &tensor);

} // namespace polyrank::frontends
