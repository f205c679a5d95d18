// The scalar form of elementwise ops: ops of `arith` and `math` on one element.
//
// An elementwise op states its function once, as an expression that C++
// evaluates on numbers (`evaluate`) and on `Scalar` (`buildScalar`), which
// builds the scalar ops of kernels: "1 / (1 + exp(-x))" is the sigmoid of both.

#pragma once

#include <cmath>
#include <string>

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/DenseSet.h"

namespace polyrank::graph {

/// Builds scalar ops at the end of a block. An op that equals an existing one
/// is replaced by that one.
class ScalarBuilder {
public:
  ScalarBuilder(mlir::Block *block, mlir::Location location)
      : builder(mlir::OpBuilder::atBlockEnd(block)), location(location) {}

  template <typename Op, typename... Args>
  mlir::Value create(Args &&...args) {
    return unique(Op::create(builder, location, std::forward<Args>(args)...));
  }
  /// `value` as a float, integer or boolean of `type`.
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);

  /// The reason why the last scalar form could not be built.
  std::string reason;

private:
  /// Compares ops for equality, ignoring their locations.
  struct OpInfo : llvm::DenseMapInfo<mlir::Operation *> {
    static unsigned getHashValue(const mlir::Operation *op);
    static bool isEqual(const mlir::Operation *x, const mlir::Operation *y);
  };
  mlir::Value unique(mlir::Operation *op);

  mlir::OpBuilder builder;
  mlir::Location location;
  llvm::DenseSet<mlir::Operation *, OpInfo> known;
};

/// A value under construction; null if an operation has no form on this element
/// type.
class Scalar {
public:
  Scalar(ScalarBuilder &builder, mlir::Value value)
      : builder(&builder), value(value) {}

  mlir::Value get() const { return value; }
  explicit operator bool() const { return static_cast<bool>(value); }
  mlir::Type getType() const { return value.getType(); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(getType()); }
  bool isBoolean() const { return getType().isInteger(1); }
  ScalarBuilder &getBuilder() const { return *builder; }
  /// A number of this type.
  Scalar like(double number) const;
  /// Returns a null value and records the reason.
  Scalar fail(const llvm::Twine &why) const;

private:
  ScalarBuilder *builder;
  mlir::Value value;
};

enum class Comparison : uint32_t;

/// The result of a comparison. NaN is unequal to everything; true is larger
/// than false.
Scalar compare(Comparison comparison, Scalar x, Scalar y);
Scalar select(Scalar condition, Scalar x, Scalar y);
/// See `graph.convert`.
Scalar convert(Scalar x, mlir::Type type);

Scalar operator-(Scalar x);
Scalar operator+(Scalar x, Scalar y);
Scalar operator-(Scalar x, Scalar y);
Scalar operator*(Scalar x, Scalar y);
/// Operators on floats.
Scalar operator/(Scalar x, Scalar y);
Scalar operator<(Scalar x, Scalar y);
Scalar operator==(Scalar x, Scalar y);
Scalar operator!=(Scalar x, Scalar y);
/// Operators on booleans, or on numbers, of which all but zero are true.
Scalar operator&&(Scalar x, Scalar y);
Scalar operator||(Scalar x, Scalar y);

inline Scalar operator+(double x, Scalar y) { return y.like(x) + y; }
inline Scalar operator/(double x, Scalar y) { return y.like(x) / y; }
inline Scalar operator<(Scalar x, double y) { return x < x.like(y); }
inline Scalar operator==(Scalar x, double y) { return x == x.like(y); }
inline Scalar select(Scalar condition, double x, Scalar y) {
  return select(condition, y.like(x), y);
}
inline double select(bool condition, double x, double y) {
  return condition ? x : y;
}

// Functions that <cmath> has for numbers, and their overloads for scalars.
using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atanh;
using std::cos;
using std::erf;
using std::exp;
using std::floor;
using std::log;
using std::sin;
using std::sqrt;
using std::tanh;
Scalar abs(Scalar x);
Scalar acos(Scalar x);
Scalar acosh(Scalar x);
Scalar asin(Scalar x);
Scalar asinh(Scalar x);
Scalar atan(Scalar x);
Scalar atanh(Scalar x);
Scalar cos(Scalar x);
Scalar erf(Scalar x);
Scalar exp(Scalar x);
Scalar floor(Scalar x);
Scalar log(Scalar x);
Scalar sin(Scalar x);
Scalar sqrt(Scalar x);
Scalar tanh(Scalar x);

// Functions that C++ has no operator for.
inline double divide(double x, double y) { return x / y; }
/// Returns 0 if y is 0. x / -1 is 0 - x, which wraps around and does not trap.
inline int64_t divide(int64_t x, int64_t y) {
  if (y == 0 || y == -1)
    return y == 0 ? 0 : static_cast<int64_t>(0 - static_cast<uint64_t>(x));
  return x / y;
}
Scalar divide(Scalar x, Scalar y);
inline double maximum(double x, double y) {
  return x != x || y != y ? std::nan("") : std::max(x, y);
}
inline int64_t maximum(int64_t x, int64_t y) { return std::max(x, y); }
Scalar maximum(Scalar x, Scalar y);
inline double minimum(double x, double y) {
  return x != x || y != y ? std::nan("") : std::min(x, y);
}
inline int64_t minimum(int64_t x, int64_t y) { return std::min(x, y); }
Scalar minimum(Scalar x, Scalar y);
inline double power(double x, double y) { return std::pow(x, y); }
/// Returns 0 if x is 0 and y negative.
int64_t power(int64_t x, int64_t y);
Scalar power(Scalar x, Scalar y);
inline int64_t conjunction(int64_t x, int64_t y) { return x & y; }
/// Never used: the verifier rejects floats.
inline double conjunction(double, double) { return std::nan(""); }
Scalar conjunction(Scalar x, Scalar y);

/// Returns `x` as the value of an op's result; a boolean is converted to the
/// result's type. Null if there is no value, or one of another type.
mlir::Value asResult(Scalar x, mlir::Type elementType);

} // namespace polyrank::graph
