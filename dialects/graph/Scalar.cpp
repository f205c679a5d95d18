// The scalar form of elementwise ops.

#include "dialects/graph/Scalar.h"

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

unsigned ScalarBuilder::OpInfo::getHashValue(const Operation *op) {
  return OperationEquivalence::computeHash(
      const_cast<Operation *>(op), OperationEquivalence::directHashValue,
      OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
}

bool ScalarBuilder::OpInfo::isEqual(const Operation *x, const Operation *y) {
  if (x == y)
    return true;
  if (x == getEmptyKey() || x == getTombstoneKey() || y == getEmptyKey() ||
      y == getTombstoneKey())
    return false;
  return OperationEquivalence::isEquivalentTo(
      const_cast<Operation *>(x), const_cast<Operation *>(y),
      OperationEquivalence::exactValueMatch, nullptr,
      OperationEquivalence::IgnoreLocations);
}

Value ScalarBuilder::unique(Operation *op) {
  auto [entry, isNew] = known.insert(op);
  if (!isNew)
    op->erase();
  return (*entry)->getResult(0);
}

Value ScalarBuilder::constant(Type type, double value) {
  if (isa<FloatType>(type))
    return create<arith::ConstantOp>(builder.getFloatAttr(type, value));
  return integer(type, toInteger(type, value));
}

Value ScalarBuilder::integer(Type type, int64_t value) {
  return create<arith::ConstantOp>(builder.getIntegerAttr(type, value));
}

Scalar Scalar::like(double number) const {
  return *this ? Scalar(*builder, builder->constant(getType(), number)) : *this;
}

Scalar Scalar::fail(const Twine &why) const {
  builder->reason = why.str();
  return Scalar(*builder, Value());
}

/// Builds `Op` on operands that all exist.
template <typename Op, typename... Args>
static Scalar make(Scalar x, Args &&...args) {
  ScalarBuilder &builder = x.getBuilder();
  return Scalar(builder,
                builder.create<Op>(x.get(), std::forward<Args>(args)...));
}

/// Builds `Op` with another result type.
template <typename Op>
static Scalar makeAs(Type type, Scalar x) {
  ScalarBuilder &builder = x.getBuilder();
  return Scalar(builder, builder.create<Op>(type, x.get()));
}

template <typename FloatOp, typename IntegerOp>
static Scalar binary(Scalar x, Scalar y) {
  if (!x || !y)
    return x ? y : x;
  return x.isFloat() ? make<FloatOp>(x, y.get()) : make<IntegerOp>(x, y.get());
}

template <typename Op>
static Scalar ofFloat(Scalar x, const char *name) {
  if (!x)
    return x;
  return x.isFloat() ? make<Op>(x)
                     : x.fail(Twine(name) + " is a function of floats");
}

static Scalar compareIntegers(arith::CmpIPredicate predicate, Scalar x,
                              Scalar y) {
  ScalarBuilder &builder = x.getBuilder();
  return Scalar(builder,
                builder.create<arith::CmpIOp>(predicate, x.get(), y.get()));
}

Scalar graph::compare(Comparison comparison, Scalar x, Scalar y) {
  if (!x || !y)
    return x ? y : x;
  ScalarBuilder &builder = x.getBuilder();
  using arith::CmpFPredicate, arith::CmpIPredicate;
  auto build = [&](CmpFPredicate ofFloats, CmpIPredicate ofIntegers,
                   CmpIPredicate ofBooleans) {
    if (!x.isFloat())
      return compareIntegers(x.isBoolean() ? ofBooleans : ofIntegers, x, y);
    return Scalar(builder,
                  builder.create<arith::CmpFOp>(ofFloats, x.get(), y.get()));
  };
  switch (comparison) {
  case Comparison::EQ:
    return build(CmpFPredicate::OEQ, CmpIPredicate::eq, CmpIPredicate::eq);
  case Comparison::NE:
    return build(CmpFPredicate::UNE, CmpIPredicate::ne, CmpIPredicate::ne);
  case Comparison::LT:
    return build(CmpFPredicate::OLT, CmpIPredicate::slt, CmpIPredicate::ult);
  case Comparison::LE:
    return build(CmpFPredicate::OLE, CmpIPredicate::sle, CmpIPredicate::ule);
  case Comparison::GT:
    return build(CmpFPredicate::OGT, CmpIPredicate::sgt, CmpIPredicate::ugt);
  case Comparison::GE:
    return build(CmpFPredicate::OGE, CmpIPredicate::sge, CmpIPredicate::uge);
  }
  llvm_unreachable("covered switch");
}

Scalar graph::select(Scalar condition, Scalar x, Scalar y) {
  if (!condition || !x || !y)
    return !condition ? condition : !x ? x : y;
  return make<arith::SelectOp>(condition, x.get(), y.get());
}

Scalar graph::operator-(Scalar x) {
  if (!x || !x.isFloat())
    return x.like(0) - x;
  return make<arith::NegFOp>(x);
}
Scalar graph::operator+(Scalar x, Scalar y) {
  return binary<arith::AddFOp, arith::AddIOp>(x, y);
}
Scalar graph::operator-(Scalar x, Scalar y) {
  return binary<arith::SubFOp, arith::SubIOp>(x, y);
}
Scalar graph::operator*(Scalar x, Scalar y) {
  return binary<arith::MulFOp, arith::MulIOp>(x, y);
}
Scalar graph::operator/(Scalar x, Scalar y) { return divide(x, y); }
Scalar graph::operator<(Scalar x, Scalar y) {
  return compare(Comparison::LT, x, y);
}
Scalar graph::operator==(Scalar x, Scalar y) {
  return compare(Comparison::EQ, x, y);
}
Scalar graph::operator!=(Scalar x, Scalar y) {
  return compare(Comparison::NE, x, y);
}

static Scalar asBoolean(Scalar x) {
  return !x || x.isBoolean() ? x : x != x.like(0);
}

/// Builds `Op` on two booleans.
template <typename Op>
static Scalar ofBooleans(Scalar x, Scalar y) {
  x = asBoolean(x);
  y = asBoolean(y);
  return binary<Op, Op>(x, y);
}

Scalar graph::operator&&(Scalar x, Scalar y) {
  return ofBooleans<arith::AndIOp>(x, y);
}
Scalar graph::operator||(Scalar x, Scalar y) {
  return ofBooleans<arith::OrIOp>(x, y);
}

Scalar graph::abs(Scalar x) {
  if (!x || x.isFloat())
    return ofFloat<math::AbsFOp>(x, "abs");
  return make<arith::MaxSIOp>(x, (-x).get());
}
Scalar graph::floor(Scalar x) {
  return !x || x.isFloat() ? ofFloat<math::FloorOp>(x, "floor") : x;
}
Scalar graph::acos(Scalar x) { return ofFloat<math::AcosOp>(x, "acos"); }
Scalar graph::acosh(Scalar x) { return ofFloat<math::AcoshOp>(x, "acosh"); }
Scalar graph::asin(Scalar x) { return ofFloat<math::AsinOp>(x, "asin"); }
Scalar graph::asinh(Scalar x) { return ofFloat<math::AsinhOp>(x, "asinh"); }
Scalar graph::atan(Scalar x) { return ofFloat<math::AtanOp>(x, "atan"); }
Scalar graph::atanh(Scalar x) { return ofFloat<math::AtanhOp>(x, "atanh"); }
Scalar graph::cos(Scalar x) { return ofFloat<math::CosOp>(x, "cos"); }
Scalar graph::erf(Scalar x) { return ofFloat<math::ErfOp>(x, "erf"); }
Scalar graph::exp(Scalar x) { return ofFloat<math::ExpOp>(x, "exp"); }
Scalar graph::log(Scalar x) { return ofFloat<math::LogOp>(x, "log"); }
Scalar graph::sin(Scalar x) { return ofFloat<math::SinOp>(x, "sin"); }
Scalar graph::sqrt(Scalar x) { return ofFloat<math::SqrtOp>(x, "sqrt"); }
Scalar graph::tanh(Scalar x) { return ofFloat<math::TanhOp>(x, "tanh"); }

Scalar graph::divide(Scalar x, Scalar y) {
  if (!x || !y)
    return x ? y : x;
  if (x.isFloat())
    return make<arith::DivFOp>(x, y.get());
  // The quotient is 0 where y is 0. x / -1 is 0 - x, which cannot trap.
  Scalar isZero = y == y.like(0), isMinus = y == y.like(-1);
  Scalar safe = select(isZero || isMinus, y.like(1), y);
  Scalar quotient = make<arith::DivSIOp>(x, safe.get());
  return select(isZero, x.like(0), select(isMinus, -x, quotient));
}

Scalar graph::maximum(Scalar x, Scalar y) {
  if (x && x.isBoolean())
    return x || y;
  return binary<arith::MaximumFOp, arith::MaxSIOp>(x, y);
}
Scalar graph::minimum(Scalar x, Scalar y) {
  if (x && x.isBoolean())
    return x && y;
  return binary<arith::MinimumFOp, arith::MinSIOp>(x, y);
}
Scalar graph::power(Scalar x, Scalar y) {
  return binary<math::PowFOp, math::IPowIOp>(x, y);
}
Scalar graph::conjunction(Scalar x, Scalar y) {
  if (x && x.isFloat())
    return x.fail("floats have no bits to compute with");
  return binary<arith::AndIOp, arith::AndIOp>(x, y);
}

/// Truncates towards zero. A value that the type cannot hold becomes the
/// nearest that it holds, and NaN becomes 0.
static Scalar floatToInteger(Scalar x, IntegerType type) {
  ScalarBuilder &builder = x.getBuilder();
  unsigned width = type.getWidth();
  double limit = std::ldexp(1.0, static_cast<int>(width) - 1);
  auto integer = [&](int64_t value) {
    return Scalar(builder, builder.integer(type, value));
  };
  Scalar result = makeAs<arith::FPToSIOp>(type, x);
  // The limit itself is a float, the largest integer is not.
  result = select(x < x.like(limit), result, integer(llvm::maxIntN(width)));
  result = select(x < x.like(-limit), integer(llvm::minIntN(width)), result);
  return select(x == x, result, integer(0));
}

Scalar graph::convert(Scalar x, Type to) {
  if (!x || x.getType() == to)
    return x;
  Type from = x.getType();
  // A narrow float is first widened, which is exact.
  if (isNarrow(from) && to != accumulatorOf(from))
    return convert(convert(x, accumulatorOf(from)), to);
  // An integer first becomes a float that has its digits, so that it is rounded
  // once, if it has at most as many as a double.
  if (!x.isFloat() && isNarrow(to)) {
    Type wide = accumulatorOf(to);
    int bits = static_cast<int>(from.getIntOrFloatBitWidth());
    bool fits = bits < rowOf(*toElementType(wide)).digits;
    return convert(
        convert(x, fits ? wide : Type(Float64Type::get(to.getContext()))), to);
  }
  if (to.isInteger(1))
    return asBoolean(x);
  if (x.isFloat() && isa<FloatType>(to))
    return from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth()
               ? makeAs<arith::ExtFOp>(to, x)
               : makeAs<arith::TruncFOp>(to, x);
  if (x.isFloat())
    return floatToInteger(x, cast<IntegerType>(to));
  if (isa<FloatType>(to))
    return x.isBoolean() ? makeAs<arith::UIToFPOp>(to, x)
                         : makeAs<arith::SIToFPOp>(to, x);
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth())
    return makeAs<arith::TruncIOp>(to, x);
  return x.isBoolean() ? makeAs<arith::ExtUIOp>(to, x)
                       : makeAs<arith::ExtSIOp>(to, x);
}

Value graph::asResult(Scalar x, Type elementType) {
  if (!x || x.getType() == elementType)
    return x.get();
  if (x.isBoolean() || x.getType() == accumulatorOf(elementType))
    return convert(x, elementType).get();
  return x.fail("has a form on another element type only").get();
}
