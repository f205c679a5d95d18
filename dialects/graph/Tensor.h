// Tensors in host memory, on which reference implementations compute.

#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace polyrank::graph {

/// Converts `value` to an integer of this type, truncating towards zero. A
/// value out of range becomes the nearest integer of the type, and NaN becomes
/// 0: the infinities, from which extrema start, become the smallest and the
/// largest integer, or false and true.
int64_t toInteger(mlir::Type type, double value);

/// The nearest value of the type, ties to even.
double roundTo(mlir::FloatType type, double value);

/// The relative error that a device's result of this type may have: that of its
/// rounding, 2^-digits, and that of a sum of `length` numbers in the type's
/// accumulator. Long sums are added in parts of about the square root of their
/// length, so there are at most twice as many additions after each other
/// (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2).
/// Two such results may differ by twice as much.
double getTolerance(mlir::FloatType type, int64_t length = 1);

/// Whether an evaluation rounds its results to the programs' types of floats.
enum class Rounding {
  Exact,  // all are computed and held as fp64: what ops mean as formulas
  OfTypes // each result is rounded as its type says: what devices compute
};

/// A dense row-major tensor. Floats of every width are held and computed as
/// fp64. Integers and booleans are held as int64.
struct Tensor {
  mlir::Type elementType;
  llvm::SmallVector<int64_t> shape;
  /// One of the two has an entry per element, depending on `isFloat`.
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

  /// Called for every element: testing for an integer type is fast, testing for
  /// a float type is not.
  bool isFloat() const { return !llvm::isa<mlir::IntegerType>(elementType); }
  int64_t getRank() const { return shape.size(); }
  int64_t size() const { return isFloat() ? floats.size() : integers.size(); }
  double at(int64_t i) const { return isFloat() ? floats[i] : integers[i]; }
  /// Writes a value that nothing may use: NaN, or for integers a number that
  /// tests notice.
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
  /// Copies `count` elements, from `from` on, of another tensor of the same
  /// kind.
  void copy(int64_t to, const Tensor &source, int64_t from, int64_t count = 1) {
    if (isFloat())
      std::copy_n(source.floats.begin() + from, count, floats.begin() + to);
    else
      std::copy_n(source.integers.begin() + from, count, integers.begin() + to);
  }
  mlir::RankedTensorType getType() const {
    return mlir::RankedTensorType::get(shape, elementType);
  }

  /// Rounds floats to the nearest value of the element type, as one op of that
  /// type would.
  void round();
  void round(Rounding rounding) {
    if (rounding == Rounding::OfTypes)
      round();
  }

  /// The same elements under another shape of the same size.
  Tensor reshaped(llvm::ArrayRef<int64_t> newShape) const;
  /// The box [start, start + size) in each dim.
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
