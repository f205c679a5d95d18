// Arithmetic on numbers, above all on sizes, evaluated at import.

#include <cmath>

#include "frontends/aten/Call.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

//===-- arithmetic -------------------------------------------------------===//

/// Both numbers; they count as floats if either is one.
struct Pair {
  bool isFloat = false;
  int64_t a = 0, b = 0;
  double x = 0, y = 0;
};

Pair getPair(Call &c) {
  const Value &left = c.all()[0], &right = c.all()[1];
  Pair pair;
  pair.isFloat = left.isFloat() || right.isFloat();
  pair.x = left.getNumber();
  pair.y = right.getNumber();
  auto toInt = [](const Value &value) {
    return value.isInt()    ? value.getInt()
           : value.isBool() ? static_cast<int64_t>(value.getBool())
                            : 0;
  };
  pair.a = toInt(left);
  pair.b = toInt(right);
  return pair;
}

LogicalResult tooLarge(Call &c) {
  return c.fail("its result is no 64-bit integer");
}

LogicalResult add(Call &c) {
  Pair p = getPair(c);
  if (p.isFloat)
    return c.give(Value(p.x + p.y));
  int64_t result;
  return llvm::AddOverflow(p.a, p.b, result) ? tooLarge(c)
                                             : c.give(Value(result));
}

LogicalResult sub(Call &c) {
  Pair p = getPair(c);
  if (p.isFloat)
    return c.give(Value(p.x - p.y));
  int64_t result;
  return llvm::SubOverflow(p.a, p.b, result) ? tooLarge(c)
                                             : c.give(Value(result));
}

LogicalResult mul(Call &c) {
  Pair p = getPair(c);
  if (p.isFloat)
    return c.give(Value(p.x * p.y));
  int64_t result;
  return llvm::MulOverflow(p.a, p.b, result) ? tooLarge(c)
                                             : c.give(Value(result));
}

LogicalResult byZero(Call &c) { return c.fail("a division by 0"); }

LogicalResult trueDiv(Call &c) {
  Pair p = getPair(c);
  return p.y == 0 ? byZero(c) : c.give(Value(p.x / p.y));
}

int64_t floorDivided(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

bool overflows(const Pair &p) { return p.b == -1 && p.a == INT64_MIN; }

LogicalResult floorDiv(Call &c) {
  Pair p = getPair(c);
  if (p.y == 0)
    return byZero(c);
  if (p.isFloat)
    return c.give(Value(std::floor(p.x / p.y)));
  return overflows(p) ? tooLarge(c) : c.give(Value(floorDivided(p.a, p.b)));
}

/// The remainder with the sign of the divisor.
LogicalResult remainder(Call &c) {
  Pair p = getPair(c);
  if (p.y == 0)
    return byZero(c);
  if (p.isFloat) {
    double rest = std::fmod(p.x, p.y);
    return c.give(
        Value(rest != 0 && (rest < 0) != (p.y < 0) ? rest + p.y : rest));
  }
  return overflows(p) ? c.give(Value(0))
                      : c.give(Value(p.a - floorDivided(p.a, p.b) * p.b));
}

LogicalResult power(Call &c) {
  Pair p = getPair(c);
  return c.give(Value(std::pow(p.x, p.y)));
}

LogicalResult integerPower(Call &c) {
  Pair p = getPair(c);
  if (p.b < 0)
    return c.fail("an integer to a negative power");
  int64_t result = 1;
  for (int64_t i = 0; i < p.b; ++i) {
    if (llvm::MulOverflow(result, p.a, result))
      return tooLarge(c);
    if (i > 64 && (p.a == 0 || p.a == 1))
      break;
    if (i > 64 && p.a == -1) {
      result = p.b % 2 ? -1 : 1;
      break;
    }
  }
  return c.give(Value(result));
}

LogicalResult negate(Call &c) {
  const Value &x = c.all()[0];
  if (x.isFloat())
    return c.give(Value(-x.getFloat()));
  if (x.isBool())
    return c.give(Value(-static_cast<int64_t>(x.getBool())));
  return x.getInt() == INT64_MIN ? tooLarge(c) : c.give(Value(-x.getInt()));
}

LogicalResult absolute(Call &c) {
  const Value &x = c.all()[0];
  if (x.isFloat())
    return c.give(Value(std::fabs(x.getFloat())));
  return x.getInt() == INT64_MIN ? tooLarge(c)
                                 : c.give(Value(std::abs(x.getInt())));
}

template <bool isMax>
LogicalResult extremum(Call &c) {
  Pair p = getPair(c);
  if (p.isFloat)
    return c.give(Value(isMax ? std::max(p.x, p.y) : std::min(p.x, p.y)));
  return c.give(Value(isMax ? std::max(p.a, p.b) : std::min(p.a, p.b)));
}

template <double (*function)(double)>
LogicalResult math(Call &c) {
  return c.give(Value(function(c.all()[0].getNumber())));
}

LogicalResult squareRoot(Call &c) {
  double x = c.all()[0].getNumber();
  if (x < 0)
    return c.fail("the root of " + std::to_string(x));
  return c.give(Value(std::sqrt(x)));
}

LogicalResult naturalLog(Call &c) {
  double x = c.all()[0].getNumber();
  if (x <= 0)
    return c.fail("the logarithm of " + std::to_string(x));
  return c.give(Value(std::log(x)));
}

template <double (*function)(double)>
LogicalResult rounded(Call &c) {
  const Value &x = c.all()[0];
  if (!x.isFloat())
    return c.give(x);
  double result = function(x.getFloat());
  if (!(std::fabs(result) < 9e18))
    return tooLarge(c);
  return c.give(Value(static_cast<int64_t>(result)));
}

//===-- comparison -------------------------------------------------------===//

template <typename Op>
LogicalResult compare(Call &c) {
  const Value &left = c.all()[0], &right = c.all()[1];
  if (left.isString())
    return c.give(Value(Op()(left.getString(), right.getString())));
  Pair p = getPair(c);
  return c.give(Value(p.isFloat ? Op()(p.x, p.y) : Op()(p.a, p.b)));
}

LogicalResult logicalNot(Call &c) {
  return c.give(Value(!c.all()[0].getBool()));
}

LogicalResult is(Call &c) {
  return c.give(Value(c.all()[0].isSame(c.all()[1])));
}
LogicalResult isNot(Call &c) {
  return c.give(Value(!c.all()[0].isSame(c.all()[1])));
}

template <bool isAnd>
LogicalResult both(Call &c) {
  bool a = c.all()[0].getBool(), b = c.all()[1].getBool();
  return c.give(Value(isAnd ? a && b : a || b));
}

const OperatorRow rows[] = {
    {"add.int(int a, int b) -> int", add},
    {"add.float(float a, float b) -> float", add},
    {"add.int_float(int a, float b) -> float", add},
    {"add.float_int(float a, int b) -> float", add},
    {"add(Scalar a, Scalar b) -> Scalar", add},
    {"sub.int(int a, int b) -> int", sub},
    {"sub.float(float a, float b) -> float", sub},
    {"sub.int_float(int a, float b) -> float", sub},
    {"sub.float_int(float a, int b) -> float", sub},
    {"sub(Scalar a, Scalar b) -> Scalar", sub},
    {"mul.int(int a, int b) -> int", mul},
    {"mul.float(float a, float b) -> float", mul},
    {"mul.int_float(int a, float b) -> float", mul},
    {"mul.float_int(float a, int b) -> float", mul},
    {"mul(Scalar a, Scalar b) -> Scalar", mul},
    {"div.int(int a, int b) -> float", trueDiv},
    {"div.float(float a, float b) -> float", trueDiv},
    {"div(Scalar a, Scalar b) -> float", trueDiv},
    {"floordiv.int(int a, int b) -> int", floorDiv},
    {"floordiv.float(float a, float b) -> float", floorDiv},
    {"floordiv.int_float(int a, float b) -> float", floorDiv},
    {"floordiv.float_int(float a, int b) -> float", floorDiv},
    {"floordiv(Scalar a, Scalar b) -> Scalar", floorDiv},
    {"remainder.int(int a, int b) -> int", remainder},
    {"remainder.float(float a, float b) -> float", remainder},
    {"remainder.int_float(int a, float b) -> float", remainder},
    {"remainder.float_int(float a, int b) -> float", remainder},
    {"remainder(Scalar a, Scalar b) -> Scalar", remainder},
    {"pow.int(int a, int b) -> float", power},
    {"pow.float(float a, float b) -> float", power},
    {"pow.int_float(int a, float b) -> float", power},
    {"pow.float_int(float a, int b) -> float", power},
    {"pow.Scalar_Scalar(Scalar a, Scalar b) -> float", power},
    {"pow.int_to_int(int a, int b) -> int", integerPower},
    {"neg.int(int a) -> int", negate},
    {"neg.float(float a) -> float", negate},
    {"neg.Scalar(Scalar a) -> Scalar", negate},
    {"prim::abs.int(int a) -> int", absolute},
    {"prim::abs.float(float a) -> float", absolute},
    {"prim::abs.Scalar(Scalar a) -> Scalar", absolute},
    {"prim::max.int(int a, int b) -> int", extremum<true>},
    {"prim::max.float(float a, float b) -> float", extremum<true>},
    {"prim::max.int_float(int a, float b) -> float", extremum<true>},
    {"prim::max.float_int(float a, int b) -> float", extremum<true>},
    {"prim::max(Scalar a, Scalar b) -> Scalar", extremum<true>},
    {"prim::min.int(int a, int b) -> int", extremum<false>},
    {"prim::min.float(float a, float b) -> float", extremum<false>},
    {"prim::min.int_float(int a, float b) -> float", extremum<false>},
    {"prim::min.float_int(float a, int b) -> float", extremum<false>},
    {"prim::min(Scalar a, Scalar b) -> Scalar", extremum<false>},
    {"sqrt.int(int a) -> float", squareRoot},
    {"sqrt.float(float a) -> float", squareRoot},
    {"sqrt.Scalar(Scalar a) -> Scalar", squareRoot},
    {"log.int(int a) -> float", naturalLog},
    {"log.float(float a) -> float", naturalLog},
    {"log.Scalar(Scalar a) -> Scalar", naturalLog},
    {"exp.int(int a) -> float", math<std::exp>},
    {"exp.float(float a) -> float", math<std::exp>},
    {"exp.Scalar(Scalar a) -> Scalar", math<std::exp>},
    {"floor.int(int a) -> int", rounded<std::floor>},
    {"floor.float(float a) -> int", rounded<std::floor>},
    {"floor.Scalar(Scalar a) -> Scalar", rounded<std::floor>},
    {"ceil.int(int a) -> int", rounded<std::ceil>},
    {"ceil.float(float a) -> int", rounded<std::ceil>},
    {"ceil.Scalar(Scalar a) -> Scalar", rounded<std::ceil>},
    {"round.int(int a) -> float", rounded<std::nearbyint>},
    {"round.Scalar(Scalar a) -> Scalar", rounded<std::nearbyint>},
    {"eq.bool(bool a, bool b) -> bool", compare<std::equal_to<>>},
    {"eq.int(int a, int b) -> bool", compare<std::equal_to<>>},
    {"eq.float(float a, float b) -> bool", compare<std::equal_to<>>},
    {"eq.int_float(int a, float b) -> bool", compare<std::equal_to<>>},
    {"eq.float_int(float a, int b) -> bool", compare<std::equal_to<>>},
    {"eq(Scalar a, Scalar b) -> bool", compare<std::equal_to<>>},
    {"eq.str(str a, str b) -> bool", compare<std::equal_to<>>},
    {"ne.bool(bool a, bool b) -> bool", compare<std::not_equal_to<>>},
    {"ne.int(int a, int b) -> bool", compare<std::not_equal_to<>>},
    {"ne.float(float a, float b) -> bool", compare<std::not_equal_to<>>},
    {"ne.int_float(int a, float b) -> bool", compare<std::not_equal_to<>>},
    {"ne.float_int(float a, int b) -> bool", compare<std::not_equal_to<>>},
    {"ne(Scalar a, Scalar b) -> bool", compare<std::not_equal_to<>>},
    {"ne.str(str a, str b) -> bool", compare<std::not_equal_to<>>},
    {"lt.int(int a, int b) -> bool", compare<std::less<>>},
    {"lt.float(float a, float b) -> bool", compare<std::less<>>},
    {"lt.int_float(int a, float b) -> bool", compare<std::less<>>},
    {"lt.float_int(float a, int b) -> bool", compare<std::less<>>},
    {"lt(Scalar a, Scalar b) -> bool", compare<std::less<>>},
    {"le.int(int a, int b) -> bool", compare<std::less_equal<>>},
    {"le.float(float a, float b) -> bool", compare<std::less_equal<>>},
    {"le.int_float(int a, float b) -> bool", compare<std::less_equal<>>},
    {"le.float_int(float a, int b) -> bool", compare<std::less_equal<>>},
    {"le(Scalar a, Scalar b) -> bool", compare<std::less_equal<>>},
    {"gt.int(int a, int b) -> bool", compare<std::greater<>>},
    {"gt.float(float a, float b) -> bool", compare<std::greater<>>},
    {"gt.int_float(int a, float b) -> bool", compare<std::greater<>>},
    {"gt.float_int(float a, int b) -> bool", compare<std::greater<>>},
    {"gt(Scalar a, Scalar b) -> bool", compare<std::greater<>>},
    {"ge.int(int a, int b) -> bool", compare<std::greater_equal<>>},
    {"ge.float(float a, float b) -> bool", compare<std::greater_equal<>>},
    {"ge.int_float(int a, float b) -> bool", compare<std::greater_equal<>>},
    {"ge.float_int(float a, int b) -> bool", compare<std::greater_equal<>>},
    {"ge(Scalar a, Scalar b) -> bool", compare<std::greater_equal<>>},
    {"__not__(bool self) -> bool", logicalNot},
    {"__is__(t1 self, t2 obj) -> bool", is},
    {"__isnot__(t1 self, t2 obj) -> bool", isNot},
    {"__and__.bool(bool a, bool b) -> bool", both<true>},
    {"__or__.bool(bool a, bool b) -> bool", both<false>},
};

} // namespace

ArrayRef<OperatorRow> getNumberRows() { return rows; }

} // namespace polyrank::frontends::aten
