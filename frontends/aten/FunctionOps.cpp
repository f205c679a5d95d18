// Elementwise functions of one operand.

#include <cmath>
#include <limits>

#include "frontends/aten/Call.h"
#include "frontends/emit/Functions.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

/// self as a float.
Imported floatSelf(Call &c, ElementType &type) {
  type = Call::floatOf(c.typeOf("self"));
  return c.as(c["self"], type);
}

template <typename Op>
LogicalResult function(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(c.emit.unary<Op>(x), type);
}

Imported times(Call &c, const Imported &x, double factor) {
  return c.emit.binaryOver<graph::MulOp>(
      x, c.emit.scalar(x.getElementType(), factor));
}

Imported plus(Call &c, const Imported &x, double term) {
  return c.emit.binaryOver<graph::AddOp>(
      x, c.emit.scalar(x.getElementType(), term));
}

LogicalResult log2(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(times(c, c.emit.unary<graph::LogOp>(x), 1 / M_LN2), type);
}

LogicalResult log10(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(times(c, c.emit.unary<graph::LogOp>(x), 1 / M_LN10), type);
}

LogicalResult exp2(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(c.emit.unary<graph::ExpOp>(times(c, x, M_LN2)), type);
}

/// 2 atanh(x / (2 + x)), which is accurate for small x.
LogicalResult log1p(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  Imported ratio = c.emit.binary<graph::DivOp>(x, plus(c, x, 2));
  return c.give(times(c, c.emit.unary<graph::AtanhOp>(ratio), 2), type);
}

/// tanh(x / 2) (e^x + 1), which is accurate for small x.
LogicalResult expm1(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(
      c.emit.binary<graph::MulOp>(c.emit.unary<graph::TanhOp>(times(c, x, 0.5)),
                                  plus(c, c.emit.unary<graph::ExpOp>(x), 1)),
      type);
}

LogicalResult tan(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(c.emit.binary<graph::DivOp>(c.emit.unary<graph::SinOp>(x),
                                            c.emit.unary<graph::CosOp>(x)),
                type);
}

LogicalResult cosh(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(coshOf(c.emit, x), type);
}

/// tanh(x) cosh(x): near 0 a difference of exponentials would lose all digits.
LogicalResult sinh(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(c.emit.binary<graph::MulOp>(c.emit.unary<graph::TanhOp>(x),
                                            coshOf(c.emit, x)),
                type);
}

LogicalResult erfc(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(plus(c, times(c, c.emit.unary<graph::ErfOp>(x), -1), 1), type);
}

/// log(x / (1 - x)), where x is clamped to [eps, 1 - eps] if `eps` is given.
LogicalResult logit(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  if (c.has("eps")) {
    double eps = c.number("eps");
    x = c.emit.binaryOver<graph::MaxOp>(x,
                                        c.emit.scalar(x.getElementType(), eps));
    x = c.emit.binaryOver<graph::MinOp>(
        x, c.emit.scalar(x.getElementType(), 1 - eps));
  }
  Imported rest = plus(c, times(c, x, -1), 1);
  return c.give(
      c.emit.unary<graph::LogOp>(c.emit.binary<graph::DivOp>(x, rest)), type);
}

Imported roundedUp(Call &c, const Imported &x) {
  return c.emit.unary<graph::NegOp>(
      c.emit.unary<graph::FloorOp>(c.emit.unary<graph::NegOp>(x)));
}

/// Applies a rounding function; integers stay as they are.
LogicalResult round(Call &c, function_ref<Imported(const Imported &)> rounded) {
  ElementType type = c.typeOf("self");
  Imported x = c.read("self");
  return c.give(isFloat(type) ? rounded(x) : x, type);
}

LogicalResult floor(Call &c) {
  return round(
      c, [&](const Imported &x) { return c.emit.unary<graph::FloorOp>(x); });
}

LogicalResult ceil(Call &c) {
  return round(c, [&](const Imported &x) { return roundedUp(c, x); });
}

LogicalResult roundEven(Call &c) {
  return round(c, [&](const Imported &x) { return roundToEven(c.emit, x); });
}

Imported truncated(Call &c, const Imported &x) {
  return c.emit.select(
      c.emit.binaryOver<graph::CompareOp>(
          x, c.emit.scalar(x.getElementType(), 0), Comparison::LT),
      roundedUp(c, x), c.emit.unary<graph::FloorOp>(x));
}

LogicalResult trunc(Call &c) {
  return round(c, [&](const Imported &x) { return truncated(c, x); });
}

LogicalResult frac(Call &c) {
  return round(c, [&](const Imported &x) {
    return c.emit.binary<graph::SubOp>(x, truncated(c, x));
  });
}

LogicalResult sign(Call &c) {
  ElementType type = c.typeOf("self");
  Imported x = c.read("self");
  return c.give(type == ElementType::BOOL ? x : signOf(c.emit, x), type);
}

Imported is(Call &c, const Imported &x, Comparison comparison, double value) {
  return c.emit.binaryOver<graph::CompareOp>(
      x, c.emit.scalar(x.getElementType(), value), comparison);
}

LogicalResult isNaN(Call &c) {
  Imported x = c.read("self");
  return c.give(c.emit.binary<graph::CompareOp>(x, x, Comparison::NE),
                ElementType::BOOL);
}

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Compares |x| with infinity; integers are finite.
template <Comparison comparison>
LogicalResult compareWithInfinity(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(is(c, c.emit.unary<graph::AbsOp>(x), comparison, infinity),
                ElementType::BOOL);
}

template <bool isPositive>
LogicalResult isSignedInfinity(Call &c) {
  ElementType type;
  Imported x = floatSelf(c, type);
  return c.give(is(c, x, Comparison::EQ, isPositive ? infinity : -infinity),
                ElementType::BOOL);
}

/// Replaces NaN and infinities by `nan`, `posinf` and `neginf`; by default 0,
/// the largest and the lowest float32.
LogicalResult nanToNum(Call &c) {
  ElementType type = c.typeOf("self");
  Imported x = c.read("self");
  if (!isFloat(type))
    return c.give(x, type);
  auto replace = [&](const Imported &condition, double value) {
    x = c.emit.select(condition,
                      c.emit.broadcast(c.emit.scalar(x.getElementType(), value),
                                       x.getShape(), !x.isConstant()),
                      x);
  };
  auto valueOf = [&](StringRef name, double otherwise) {
    return c.has(name) ? c.number(name) : otherwise;
  };
  double most = std::numeric_limits<float>::max();
  replace(c.emit.binary<graph::CompareOp>(x, x, Comparison::NE),
          valueOf("nan", 0));
  replace(is(c, x, Comparison::EQ, infinity), valueOf("posinf", most));
  replace(is(c, x, Comparison::EQ, -infinity), valueOf("neginf", -most));
  return c.give(x, type);
}

const OperatorRow rows[] = {
    {"exp(Tensor self) -> Tensor", function<graph::ExpOp>},
    {"exp_(Tensor(a!) self) -> Tensor(a!)", function<graph::ExpOp>},
    {"log(Tensor self) -> Tensor", function<graph::LogOp>},
    {"log_(Tensor(a!) self) -> Tensor(a!)", function<graph::LogOp>},
    {"sqrt(Tensor self) -> Tensor", function<graph::SqrtOp>},
    {"sqrt_(Tensor(a!) self) -> Tensor(a!)", function<graph::SqrtOp>},
    {"rsqrt(Tensor self) -> Tensor", function<graph::RsqrtOp>},
    {"rsqrt_(Tensor(a!) self) -> Tensor(a!)", function<graph::RsqrtOp>},
    {"sin(Tensor self) -> Tensor", function<graph::SinOp>},
    {"sin_(Tensor(a!) self) -> Tensor(a!)", function<graph::SinOp>},
    {"cos(Tensor self) -> Tensor", function<graph::CosOp>},
    {"cos_(Tensor(a!) self) -> Tensor(a!)", function<graph::CosOp>},
    {"tanh(Tensor self) -> Tensor", function<graph::TanhOp>},
    {"tanh_(Tensor(a!) self) -> Tensor(a!)", function<graph::TanhOp>},
    {"sigmoid(Tensor self) -> Tensor", function<graph::SigmoidOp>},
    {"sigmoid_(Tensor(a!) self) -> Tensor(a!)", function<graph::SigmoidOp>},
    {"erf(Tensor self) -> Tensor", function<graph::ErfOp>},
    {"erf_(Tensor(a!) self) -> Tensor(a!)", function<graph::ErfOp>},
    {"atan(Tensor self) -> Tensor", function<graph::AtanOp>},
    {"atan_(Tensor(a!) self) -> Tensor(a!)", function<graph::AtanOp>},
    {"arctan(Tensor self) -> Tensor", function<graph::AtanOp>},
    {"arctan_(Tensor(a!) self) -> Tensor(a!)", function<graph::AtanOp>},
    {"asin(Tensor self) -> Tensor", function<graph::AsinOp>},
    {"asin_(Tensor(a!) self) -> Tensor(a!)", function<graph::AsinOp>},
    {"arcsin(Tensor self) -> Tensor", function<graph::AsinOp>},
    {"arcsin_(Tensor(a!) self) -> Tensor(a!)", function<graph::AsinOp>},
    {"acos(Tensor self) -> Tensor", function<graph::AcosOp>},
    {"acos_(Tensor(a!) self) -> Tensor(a!)", function<graph::AcosOp>},
    {"arccos(Tensor self) -> Tensor", function<graph::AcosOp>},
    {"arccos_(Tensor(a!) self) -> Tensor(a!)", function<graph::AcosOp>},
    {"asinh(Tensor self) -> Tensor", function<graph::AsinhOp>},
    {"asinh_(Tensor(a!) self) -> Tensor(a!)", function<graph::AsinhOp>},
    {"arcsinh(Tensor self) -> Tensor", function<graph::AsinhOp>},
    {"arcsinh_(Tensor(a!) self) -> Tensor(a!)", function<graph::AsinhOp>},
    {"acosh(Tensor self) -> Tensor", function<graph::AcoshOp>},
    {"acosh_(Tensor(a!) self) -> Tensor(a!)", function<graph::AcoshOp>},
    {"arccosh(Tensor self) -> Tensor", function<graph::AcoshOp>},
    {"arccosh_(Tensor(a!) self) -> Tensor(a!)", function<graph::AcoshOp>},
    {"atanh(Tensor self) -> Tensor", function<graph::AtanhOp>},
    {"atanh_(Tensor(a!) self) -> Tensor(a!)", function<graph::AtanhOp>},
    {"arctanh(Tensor self) -> Tensor", function<graph::AtanhOp>},
    {"arctanh_(Tensor(a!) self) -> Tensor(a!)", function<graph::AtanhOp>},
    {"log2(Tensor self) -> Tensor", log2},
    {"log2_(Tensor(a!) self) -> Tensor(a!)", log2},
    {"log10(Tensor self) -> Tensor", log10},
    {"log10_(Tensor(a!) self) -> Tensor(a!)", log10},
    {"exp2(Tensor self) -> Tensor", exp2},
    {"exp2_(Tensor(a!) self) -> Tensor(a!)", exp2},
    {"log1p(Tensor self) -> Tensor", log1p},
    {"log1p_(Tensor(a!) self) -> Tensor(a!)", log1p},
    {"expm1(Tensor self) -> Tensor", expm1},
    {"expm1_(Tensor(a!) self) -> Tensor(a!)", expm1},
    {"tan(Tensor self) -> Tensor", tan},
    {"tan_(Tensor(a!) self) -> Tensor(a!)", tan},
    {"cosh(Tensor self) -> Tensor", cosh},
    {"cosh_(Tensor(a!) self) -> Tensor(a!)", cosh},
    {"sinh(Tensor self) -> Tensor", sinh},
    {"sinh_(Tensor(a!) self) -> Tensor(a!)", sinh},
    {"erfc(Tensor self) -> Tensor", erfc},
    {"erfc_(Tensor(a!) self) -> Tensor(a!)", erfc},
    {"logit(Tensor self, float? eps=None) -> Tensor", logit},
    {"logit_(Tensor(a!) self, float? eps=None) -> Tensor(a!)", logit},
    {"floor(Tensor self) -> Tensor", floor},
    {"floor_(Tensor(a!) self) -> Tensor(a!)", floor},
    {"ceil(Tensor self) -> Tensor", ceil},
    {"ceil_(Tensor(a!) self) -> Tensor(a!)", ceil},
    {"round(Tensor self) -> Tensor", roundEven},
    {"round_(Tensor(a!) self) -> Tensor(a!)", roundEven},
    {"trunc(Tensor self) -> Tensor", trunc},
    {"trunc_(Tensor(a!) self) -> Tensor(a!)", trunc},
    {"fix(Tensor self) -> Tensor", trunc},
    {"fix_(Tensor(a!) self) -> Tensor(a!)", trunc},
    {"frac(Tensor self) -> Tensor", frac},
    {"frac_(Tensor(a!) self) -> Tensor(a!)", frac},
    {"sign(Tensor self) -> Tensor", sign},
    {"sign_(Tensor(a!) self) -> Tensor(a!)", sign},
    {"sgn(Tensor self) -> Tensor", sign},
    {"sgn_(Tensor(a!) self) -> Tensor(a!)", sign},
    {"isnan(Tensor self) -> Tensor", isNaN},
    {"isinf(Tensor self) -> Tensor", compareWithInfinity<Comparison::EQ>},
    {"isfinite(Tensor self) -> Tensor", compareWithInfinity<Comparison::LT>},
    {"isposinf(Tensor self) -> Tensor", isSignedInfinity<true>},
    {"isneginf(Tensor self) -> Tensor", isSignedInfinity<false>},
    {"nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? "
     "neginf=None) -> Tensor",
     nanToNum},
    {"nan_to_num_(Tensor(a!) self, float? nan=None, float? posinf=None, "
     "float? neginf=None) -> Tensor(a!)",
     nanToNum},
};

} // namespace

ArrayRef<OperatorRow> getFunctionRows() { return rows; }

} // namespace polyrank::frontends::aten
