// What a name in a model stands for during import: a value of the graph, or a
// tensor that is already known.

#pragma once

#include <memory>
#include <vector>

#include "dialects/graph/Graph.h"

namespace polyrank::frontends {

/// A tensor that is known at import. If all its slices along a dim are equal,
/// one may stand for them: masks of long sequences repeat along the batch.
class Known {
public:
  Known() = default;
  Known(graph::Tensor tensor);
  /// `slices`, with its dims of size 1 repeated to `shape`, of the same rank.
  Known(graph::Tensor slices, llvm::ArrayRef<int64_t> shape);

  explicit operator bool() const { return data != nullptr; }
  llvm::ArrayRef<int64_t> getShape() const { return data->shape; }
  const graph::Tensor &getSlices() const { return data->slices; }
  bool repeats() const {
    return getShape() != llvm::ArrayRef<int64_t>(getSlices().shape);
  }
  /// The whole tensor, created at first use.
  const graph::Tensor &operator*() const;
  const graph::Tensor *operator->() const { return &**this; }
  /// An identity that copies share.
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
/// built, a known tensor, or a sequence of these. Empty if the node that
/// defines it could not be imported.
struct Imported {
  mlir::Value value;
  Known constant;
  std::shared_ptr<const std::vector<Imported>> sequence;
  /// The integer type in the file, with width and sign, if values are computed
  /// in a wider or a signed type; else null.
  mlir::IntegerType held;

  Imported() = default;
  Imported(mlir::Value value) : value(value) {}
  Imported(Known constant) : constant(std::move(constant)) {}
  Imported(graph::Tensor tensor) : constant(std::move(tensor)) {}
  Imported(std::vector<Imported> elements)
      : sequence(std::make_shared<const std::vector<Imported>>(
            std::move(elements))) {}

  explicit operator bool() const { return value || constant || sequence; }
  /// Returns true if it is known and small enough to be read element by
  /// element.
  bool isConstant() const;
  /// The type of the value or constant.
  mlir::RankedTensorType getType() const;
  mlir::Type getElementType() const { return getType().getElementType(); }
  /// Returns a copy, since types of constants are created on request.
  llvm::SmallVector<int64_t> getShape() const;
  int64_t getRank() const;
};

/// Returns true if `x` is an argument of @forward that is a stored parameter.
bool isParameter(const Imported &x);

using Shape = llvm::SmallVector<int64_t>;

/// Formats a shape as "[8, 128]".
std::string toString(llvm::ArrayRef<int64_t> shape);

/// NumPy's broadcast of two shapes; fails if they are incompatible.
mlir::FailureOr<Shape> broadcastShapes(llvm::ArrayRef<int64_t> a,
                                       llvm::ArrayRef<int64_t> b);

/// The number of elements, at most 2^62. Negative dims count as 0.
int64_t countElements(llvm::ArrayRef<int64_t> shape);
/// The most elements that any tensor may have.
constexpr int64_t maxElements = int64_t(1) << 42;
/// Known tensors with more elements than this are kept as slices, and are
/// expanded at run time.
constexpr int64_t maxFolded = int64_t(1) << 26;

/// The element type in which values are computed: float32 for every float.
mlir::Type toComputedType(mlir::Type elementType);

/// Converts `tensor` to the element type in which values are computed. Finite
/// values stay finite, above all the lowest fp64 of masks.
graph::Tensor toComputed(graph::Tensor tensor);

/// `tensor`, with its dims of size 1 repeated to `shape`, of the same rank.
graph::Tensor repeat(const graph::Tensor &tensor,
                     llvm::ArrayRef<int64_t> shape);

/// The dims of `tensor` along which the slices are not all equal.
llvm::SmallVector<int64_t> varyingDims(const graph::Tensor &tensor);

} // namespace polyrank::frontends
