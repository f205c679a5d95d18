// Arithmetic of tensors and numbers.

#include "frontends/aten/Call.h"
#include "frontends/emit/Activations.h"
#include "frontends/emit/Functions.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

/// The sum of operands of the same shape; for booleans + is "or" and * is
/// "and", as in PyTorch.
Imported sumOf(Call &c, ElementType type, const Imported &x,
               const Imported &y) {
  return type == ElementType::BOOL ? c.emit.binary<graph::OrOp>(x, y)
                                   : c.emit.binary<graph::AddOp>(x, y);
}

Imported productOf(Call &c, ElementType type, const Imported &x,
                   const Imported &y) {
  return type == ElementType::BOOL ? c.emit.binary<graph::AndOp>(x, y)
                                   : c.emit.binary<graph::MulOp>(x, y);
}

/// y times the argument `alpha`.
Imported scaled(Call &c, ElementType type, const Imported &y,
                StringRef name = "alpha") {
  if (!c.has(name) || c.number(name) == 1)
    return y;
  return c.emit.binaryOver<graph::MulOp>(y, c.as(c[name], type));
}

LogicalResult add(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  return c.give(sumOf(c, both->type, both->operands[0],
                      scaled(c, both->type, both->operands[1])),
                both->type);
}

LogicalResult subtract(Call &c, const Value &from, const Value &what) {
  auto both = c.promote({from, what});
  if (failed(both))
    return failure();
  if (both->type == ElementType::BOOL)
    return c.fail("a difference of booleans; use logical_xor or ^");
  return c.give(
      c.emit.binary<graph::SubOp>(both->operands[0],
                                  scaled(c, both->type, both->operands[1])),
      both->type);
}

LogicalResult sub(Call &c) { return subtract(c, c["self"], c["other"]); }
LogicalResult rsub(Call &c) { return subtract(c, c["other"], c["self"]); }

LogicalResult mul(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  return c.give(productOf(c, both->type, both->operands[0], both->operands[1]),
                both->type);
}

/// Rounds towards zero.
Imported truncated(Call &c, const Imported &x) {
  if (!isa<FloatType>(x.getElementType()))
    return x;
  Imported up = c.emit.unary<graph::NegOp>(
      c.emit.unary<graph::FloorOp>(c.emit.unary<graph::NegOp>(x)));
  return c.emit.select(
      c.emit.binaryOver<graph::CompareOp>(
          x, c.emit.scalar(x.getElementType(), 0), Comparison::LT),
      up, c.emit.unary<graph::FloorOp>(x));
}

/// The quotient rounded to an integer: down, or towards zero.
Imported roundedQuotient(Call &c, ElementType type, const Imported &x,
                         const Imported &y, bool down) {
  if (isFloat(type)) {
    Imported quotient = c.emit.binary<graph::DivOp>(x, y);
    return down ? c.emit.unary<graph::FloorOp>(quotient)
                : truncated(c, quotient);
  }
  if (!down)
    return c.emit.binary<graph::DivOp>(x, y);
  Imported rest = remainderOf(c.emit, x, y, /*ofDividend=*/false);
  return c.emit.binary<graph::DivOp>(c.emit.binary<graph::SubOp>(x, rest), y);
}

LogicalResult div(Call &c) {
  bool isRounded = c.has("rounding_mode");
  auto both = c.promote({c["self"], c["other"]}, /*toFloat=*/!isRounded);
  if (failed(both))
    return failure();
  const auto &[type, operands] = *both;
  if (!isRounded)
    return c.give(c.emit.binary<graph::DivOp>(operands[0], operands[1]), type);
  StringRef mode = c.text("rounding_mode");
  if (mode != "floor" && mode != "trunc")
    return c.fail("rounding_mode '" + mode + "'");
  return c.give(
      roundedQuotient(c, type, operands[0], operands[1], mode == "floor"),
      type);
}

LogicalResult floorDivide(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  return c.give(roundedQuotient(c, both->type, both->operands[0],
                                both->operands[1], /*down=*/true),
                both->type);
}

/// The remainder with the sign of the divisor (Python's %), or of the dividend
/// (C's fmod).
template <bool ofDividend>
LogicalResult remainder(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  Imported x = both->operands[0], y = both->operands[1];
  if (!isFloat(both->type))
    return c.give(remainderOf(c.emit, x, y, ofDividend), both->type);
  Imported times = roundedQuotient(c, both->type, x, y, !ofDividend);
  return c.give(
      c.emit.binary<graph::SubOp>(x, c.emit.binary<graph::MulOp>(times, y)),
      both->type);
}

LogicalResult pow(Call &c) {
  auto both = c.promote({c["self"], c["exponent"]});
  if (failed(both))
    return failure();
  Imported x = both->operands[0], y = both->operands[1];
  if (!isFloat(both->type) && y.isConstant() &&
      llvm::any_of(y.constant.getSlices().integers,
                   [](int64_t each) { return each < 0; }))
    return c.fail("integers to a negative power are not integers; compute them "
                  "of floats (x.float() ** -1)");
  return c.give(c.emit.binary<graph::PowOp>(x, y), both->type);
}

/// self + value * tensor1 (* or /) tensor2.
template <bool isProduct>
LogicalResult addProduct(Call &c) {
  auto all = c.promote({c["self"], c["tensor1"], c["tensor2"]}, !isProduct);
  if (failed(all))
    return failure();
  Imported part =
      isProduct
          ? c.emit.binary<graph::MulOp>(all->operands[1], all->operands[2])
          : c.emit.binary<graph::DivOp>(all->operands[1], all->operands[2]);
  return c.give(c.emit.binary<graph::AddOp>(
                    all->operands[0], scaled(c, all->type, part, "value")),
                all->type);
}

/// self + weight * (end - self).
LogicalResult lerp(Call &c) {
  auto all = c.promote({c["self"], c["end"], c["weight"]}, /*toFloat=*/true);
  if (failed(all))
    return failure();
  Imported step =
      c.emit.binary<graph::SubOp>(all->operands[1], all->operands[0]);
  return c.give(c.emit.binary<graph::AddOp>(
                    all->operands[0],
                    c.emit.binary<graph::MulOp>(all->operands[2], step)),
                all->type);
}

LogicalResult negate(Call &c) {
  ElementType type = c.typeOf("self");
  if (type == ElementType::BOOL)
    return c.fail("minus a boolean; use logical_not or ~");
  return c.give(c.emit.unary<graph::NegOp>(c.read("self")), type);
}

LogicalResult absolute(Call &c) {
  ElementType type = c.typeOf("self");
  return c.give(type == ElementType::BOOL
                    ? c.read("self")
                    : c.emit.unary<graph::AbsOp>(c.read("self")),
                type);
}

LogicalResult reciprocal(Call &c) {
  auto both = c.promote({Value(1.0), c["self"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  return c.give(
      c.emit.binary<graph::DivOp>(both->operands[0], both->operands[1]),
      both->type);
}

LogicalResult square(Call &c) {
  Imported x = c.read("self");
  return c.give(c.emit.binary<graph::MulOp>(x, x), c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", add},
    {"add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> "
     "Tensor(a!)",
     add},
    {"add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", add},
    {"add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> "
     "Tensor(a!)",
     add},
    {"sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", sub},
    {"sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> "
     "Tensor(a!)",
     sub},
    {"sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", sub},
    {"sub_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> "
     "Tensor(a!)",
     sub},
    {"subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> "
     "Tensor",
     sub},
    {"subtract_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) "
     "-> Tensor(a!)",
     sub},
    {"subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     sub},
    {"subtract_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> "
     "Tensor(a!)",
     sub},
    {"rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     rsub},
    {"rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", rsub},
    {"mul.Tensor(Tensor self, Tensor other) -> Tensor", mul},
    {"mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", mul},
    {"mul.Scalar(Tensor self, Scalar other) -> Tensor", mul},
    {"mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", mul},
    {"multiply.Tensor(Tensor self, Tensor other) -> Tensor", mul},
    {"multiply_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", mul},
    {"multiply.Scalar(Tensor self, Scalar other) -> Tensor", mul},
    {"multiply_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", mul},
    {"div.Tensor(Tensor self, Tensor other) -> Tensor", div},
    {"div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", div},
    {"div.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
     div},
    {"div.Scalar(Tensor self, Scalar other) -> Tensor", div},
    {"div_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", div},
    {"div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) "
     "-> Tensor",
     div},
    {"div_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? "
     "rounding_mode) -> Tensor(a!)",
     div},
    {"div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) "
     "-> Tensor",
     div},
    {"div_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? "
     "rounding_mode) -> Tensor(a!)",
     div},
    {"divide.Tensor(Tensor self, Tensor other) -> Tensor", div},
    {"divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", div},
    {"divide.Scalar(Tensor self, Scalar other) -> Tensor", div},
    {"divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", div},
    {"divide.Tensor_mode(Tensor self, Tensor other, *, str? "
     "rounding_mode) -> Tensor",
     div},
    {"divide_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? "
     "rounding_mode) -> Tensor(a!)",
     div},
    {"divide.Scalar_mode(Tensor self, Scalar other, *, str? "
     "rounding_mode) -> Tensor",
     div},
    {"divide_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? "
     "rounding_mode) -> Tensor(a!)",
     div},
    {"true_divide.Tensor(Tensor self, Tensor other) -> Tensor", div},
    {"true_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", div},
    {"true_divide.Scalar(Tensor self, Scalar other) -> Tensor", div},
    {"true_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)", div},
    {"floor_divide(Tensor self, Tensor other) -> Tensor", floorDivide},
    {"floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     floorDivide},
    {"floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", floorDivide},
    {"floor_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     floorDivide},
    {"remainder.Tensor(Tensor self, Tensor other) -> Tensor", remainder<false>},
    {"remainder_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     remainder<false>},
    {"remainder.Scalar(Tensor self, Scalar other) -> Tensor", remainder<false>},
    {"remainder_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     remainder<false>},
    {"remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     remainder<false>},
    {"fmod.Tensor(Tensor self, Tensor other) -> Tensor", remainder<true>},
    {"fmod_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     remainder<true>},
    {"fmod.Scalar(Tensor self, Scalar other) -> Tensor", remainder<true>},
    {"fmod_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     remainder<true>},
    {"pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", pow},
    {"pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", pow},
    {"pow.Scalar(Scalar self, Tensor exponent) -> Tensor", pow},
    {"pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)", pow},
    {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar "
     "value=1) -> Tensor",
     addProduct<true>},
    {"addcmul_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar "
     "value=1) -> Tensor(a!)",
     addProduct<true>},
    {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar "
     "value=1) -> Tensor",
     addProduct<false>},
    {"addcdiv_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar "
     "value=1) -> Tensor(a!)",
     addProduct<false>},
    {"lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp},
    {"lerp_.Scalar(Tensor(a!) self, Tensor end, Scalar weight) -> "
     "Tensor(a!)",
     lerp},
    {"lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp},
    {"lerp_.Tensor(Tensor(a!) self, Tensor end, Tensor weight) -> "
     "Tensor(a!)",
     lerp},
    {"neg(Tensor self) -> Tensor", negate},
    {"neg_(Tensor(a!) self) -> Tensor(a!)", negate},
    {"negative(Tensor self) -> Tensor", negate},
    {"negative_(Tensor(a!) self) -> Tensor(a!)", negate},
    {"abs(Tensor self) -> Tensor", absolute},
    {"abs_(Tensor(a!) self) -> Tensor(a!)", absolute},
    {"absolute(Tensor self) -> Tensor", absolute},
    {"absolute_(Tensor(a!) self) -> Tensor(a!)", absolute},
    {"reciprocal(Tensor self) -> Tensor", reciprocal},
    {"reciprocal_(Tensor(a!) self) -> Tensor(a!)", reciprocal},
    {"square(Tensor self) -> Tensor", square},
    {"square_(Tensor(a!) self) -> Tensor(a!)", square},
};

} // namespace

ArrayRef<OperatorRow> getArithmeticRows() { return rows; }

} // namespace polyrank::frontends::aten
