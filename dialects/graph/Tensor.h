// A tensor in the host's memory: what reference implementations compute on.

#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace polyrank::graph {

/// `value` as an integer of this type, towards zero. What lies outside is the
/// nearest there is, and NaN is 0: the infinities, which extrema start from,
/// are the least and the largest integer, or false and true.
int64_t toInteger(mlir::Type type, double value);

/// A dense row-major tensor. Floats of every width are held and computed as
/// fp64: the reference is the exact result up to fp64 rounding, and storage
/// rounding is left to kernels. Integers and booleans are held as int64.
struct Tensor {
  mlir::Type elementType;
  llvm::SmallVector<int64_t> shape;
  /// One of the two has an entry per element, by `isFloat`.
  std::vector<double> floats;
  std::vector<int64_t> integers;

  Tensor() = default;
  /// All zeros.
  Tensor(mlir::Type elementType, llvm::ArrayRef<int64_t> shape);
  explicit Tensor(mlir::RankedTensorType type)
      : Tensor(type.getElementType(), type.getShape()) {}
  Tensor(const Tensor &) = default;
  Tensor &operator=(const Tensor &) = default;
  /// Without `noexcept` a growing vector of tensors would copy them.
  Tensor(Tensor &&) noexcept = default;
  Tensor &operator=(Tensor &&) noexcept = default;

  static Tensor splat(mlir::RankedTensorType type, double value);
  static Tensor fromAttribute(mlir::DenseElementsAttr attribute);
  mlir::DenseElementsAttr toAttribute() const;

  /// Asked for every element: whether a type is an integer is quickly told,
  /// whether it is a float is not.
  bool isFloat() const { return !llvm::isa<mlir::IntegerType>(elementType); }
  int64_t getRank() const { return shape.size(); }
  int64_t size() const { return isFloat() ? floats.size() : integers.size(); }
  double at(int64_t i) const { return isFloat() ? floats[i] : integers[i]; }
  /// What nobody may use: NaN, and of integers a number that shows.
  void setUndefined(int64_t i) {
    if (isFloat())
      floats[i] = std::numeric_limits<double>::quiet_NaN();
    else
      integers[i] = 1;
  }
  void set(int64_t i, double value) {
    if (isFloat())
      floats[i] = value;
    else
      integers[i] = toInteger(elementType, value);
  }
  /// `count` elements from `from` on of another tensor of the same kind.
  void copy(int64_t to, const Tensor &source, int64_t from, int64_t count = 1) {
    if (isFloat())
      std::copy_n(source.floats.begin() + from, count, floats.begin() + to);
    else
      std::copy_n(source.integers.begin() + from, count, integers.begin() + to);
  }
  mlir::RankedTensorType getType() const {
    return mlir::RankedTensorType::get(shape, elementType);
  }

  /// Rounds floats to the nearest that the element type has, so that what was
  /// computed here is what one op of that type gives.
  void round();

  /// The same elements under another shape of the same size.
  Tensor reshaped(llvm::ArrayRef<int64_t> newShape) const;
  /// The box [start, start + size) per dim.
  Tensor slice(llvm::ArrayRef<int64_t> start,
               llvm::ArrayRef<int64_t> size) const;
  /// Writes `part` at `start`.
  void insert(const Tensor &part, llvm::ArrayRef<int64_t> start);
};

/// Row-major strides in elements.
llvm::SmallVector<int64_t> getStrides(llvm::ArrayRef<int64_t> shape);
int64_t numElements(llvm::ArrayRef<int64_t> shape);
/// Calls `body` with every multi-index of `shape`, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> body);

} // namespace polyrank::graph
