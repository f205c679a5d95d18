// Comparison and logic.

#include "frontends/aten/Call.h"
#include "frontends/emit/Functions.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

template <Comparison comparison>
LogicalResult compare(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  return c.give(c.emit.binary<graph::CompareOp>(both->operands[0],
                                                both->operands[1], comparison),
                ElementType::BOOL);
}

/// Both arguments as booleans of their common shape.
FailureOr<SmallVector<Imported>> booleans(Call &c) {
  return c.emit.broadcastAll({c.as(c["self"], ElementType::BOOL),
                              c.as(c["other"], ElementType::BOOL)});
}

template <typename Op>
LogicalResult logical(Call &c) {
  auto both = booleans(c);
  if (failed(both))
    return failure();
  return c.give(c.emit.binary<Op>((*both)[0], (*both)[1]), ElementType::BOOL);
}

LogicalResult logicalXor(Call &c) {
  auto both = booleans(c);
  if (failed(both))
    return failure();
  return c.give(
      c.emit.binary<graph::CompareOp>((*both)[0], (*both)[1], Comparison::NE),
      ElementType::BOOL);
}

LogicalResult logicalNot(Call &c) {
  return c.give(c.emit.unary<graph::NotOp>(c.as(c["self"], ElementType::BOOL)),
                ElementType::BOOL);
}

enum class Bits { And, Or, Xor };

template <Bits kind>
LogicalResult bitwise(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  if (isFloat(both->type))
    return c.fail("bits of floats; convert them to integers");
  Imported x = both->operands[0], y = both->operands[1], result;
  if (both->type == ElementType::BOOL)
    result = kind == Bits::And ? c.emit.binary<graph::AndOp>(x, y)
             : kind == Bits::Or
                 ? c.emit.binary<graph::OrOp>(x, y)
                 : c.emit.binary<graph::CompareOp>(x, y, Comparison::NE);
  else
    result = kind == Bits::And
                 ? c.emit.binary<graph::BitAndOp>(x, y)
                 : bitOrOf(c.emit, x, y, /*isXor=*/kind == Bits::Xor);
  return c.give(result, both->type);
}

/// "Not" for booleans, -1 - x for integers.
LogicalResult bitwiseNot(Call &c) {
  ElementType type = c.typeOf("self");
  Imported x = c.read("self");
  if (isFloat(type))
    return c.fail("bits of floats; convert them to integers");
  if (type == ElementType::BOOL)
    return c.give(c.emit.unary<graph::NotOp>(x), type);
  Imported ones = c.emit.broadcast(c.emit.scalar(x.getElementType(), -1),
                                   x.getShape(), !x.isConstant());
  return c.give(c.emit.binary<graph::SubOp>(ones, x), type);
}

/// True if all elements are equal; both tensors must be known.
LogicalResult equal(Call &c) {
  Imported x = c.read("self"), y = c.read("other");
  if (x.getShape() != y.getShape())
    return c.give(Value(false));
  if (!x.isConstant() || !y.isConstant())
    return c.fail("its operands depend on the values of inputs or parameters, "
                  "but must be known when the model is compiled");
  for (int64_t i = 0, n = x.constant->size(); i < n; ++i)
    if (x.constant->at(i) != y.constant->at(i))
      return c.give(Value(false));
  return c.give(Value(true));
}

const OperatorRow rows[] = {
    {"eq.Tensor(Tensor self, Tensor other) -> Tensor", compare<Comparison::EQ>},
    {"eq_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::EQ>},
    {"eq.Scalar(Tensor self, Scalar other) -> Tensor", compare<Comparison::EQ>},
    {"eq_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::EQ>},
    {"ne.Tensor(Tensor self, Tensor other) -> Tensor", compare<Comparison::NE>},
    {"ne_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::NE>},
    {"ne.Scalar(Tensor self, Scalar other) -> Tensor", compare<Comparison::NE>},
    {"ne_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::NE>},
    {"not_equal.Tensor(Tensor self, Tensor other) -> Tensor",
     compare<Comparison::NE>},
    {"not_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::NE>},
    {"not_equal.Scalar(Tensor self, Scalar other) -> Tensor",
     compare<Comparison::NE>},
    {"not_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::NE>},
    {"lt.Tensor(Tensor self, Tensor other) -> Tensor", compare<Comparison::LT>},
    {"lt_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::LT>},
    {"lt.Scalar(Tensor self, Scalar other) -> Tensor", compare<Comparison::LT>},
    {"lt_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::LT>},
    {"less.Tensor(Tensor self, Tensor other) -> Tensor",
     compare<Comparison::LT>},
    {"less_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::LT>},
    {"less.Scalar(Tensor self, Scalar other) -> Tensor",
     compare<Comparison::LT>},
    {"less_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::LT>},
    {"le.Tensor(Tensor self, Tensor other) -> Tensor", compare<Comparison::LE>},
    {"le_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::LE>},
    {"le.Scalar(Tensor self, Scalar other) -> Tensor", compare<Comparison::LE>},
    {"le_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::LE>},
    {"less_equal.Tensor(Tensor self, Tensor other) -> Tensor",
     compare<Comparison::LE>},
    {"less_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::LE>},
    {"less_equal.Scalar(Tensor self, Scalar other) -> Tensor",
     compare<Comparison::LE>},
    {"less_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::LE>},
    {"gt.Tensor(Tensor self, Tensor other) -> Tensor", compare<Comparison::GT>},
    {"gt_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::GT>},
    {"gt.Scalar(Tensor self, Scalar other) -> Tensor", compare<Comparison::GT>},
    {"gt_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::GT>},
    {"greater.Tensor(Tensor self, Tensor other) -> Tensor",
     compare<Comparison::GT>},
    {"greater_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::GT>},
    {"greater.Scalar(Tensor self, Scalar other) -> Tensor",
     compare<Comparison::GT>},
    {"greater_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::GT>},
    {"ge.Tensor(Tensor self, Tensor other) -> Tensor", compare<Comparison::GE>},
    {"ge_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::GE>},
    {"ge.Scalar(Tensor self, Scalar other) -> Tensor", compare<Comparison::GE>},
    {"ge_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::GE>},
    {"greater_equal.Tensor(Tensor self, Tensor other) -> Tensor",
     compare<Comparison::GE>},
    {"greater_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     compare<Comparison::GE>},
    {"greater_equal.Scalar(Tensor self, Scalar other) -> Tensor",
     compare<Comparison::GE>},
    {"greater_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     compare<Comparison::GE>},
    {"logical_and(Tensor self, Tensor other) -> Tensor", logical<graph::AndOp>},
    {"logical_and_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     logical<graph::AndOp>},
    {"logical_or(Tensor self, Tensor other) -> Tensor", logical<graph::OrOp>},
    {"logical_or_(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     logical<graph::OrOp>},
    {"logical_xor(Tensor self, Tensor other) -> Tensor", logicalXor},
    {"logical_xor_(Tensor(a!) self, Tensor other) -> Tensor(a!)", logicalXor},
    {"logical_not(Tensor self) -> Tensor", logicalNot},
    {"logical_not_(Tensor(a!) self) -> Tensor(a!)", logicalNot},
    {"bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor",
     bitwise<Bits::And>},
    {"bitwise_and_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     bitwise<Bits::And>},
    {"bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor",
     bitwise<Bits::And>},
    {"bitwise_and_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     bitwise<Bits::And>},
    {"bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     bitwise<Bits::And>},
    {"__and__.Tensor(Tensor self, Tensor other) -> Tensor", bitwise<Bits::And>},
    {"__and__.Scalar(Tensor self, Scalar other) -> Tensor", bitwise<Bits::And>},
    {"__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     bitwise<Bits::And>},
    {"__iand__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     bitwise<Bits::And>},
    {"bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor",
     bitwise<Bits::Or>},
    {"bitwise_or_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     bitwise<Bits::Or>},
    {"bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor",
     bitwise<Bits::Or>},
    {"bitwise_or_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     bitwise<Bits::Or>},
    {"bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     bitwise<Bits::Or>},
    {"__or__.Tensor(Tensor self, Tensor other) -> Tensor", bitwise<Bits::Or>},
    {"__or__.Scalar(Tensor self, Scalar other) -> Tensor", bitwise<Bits::Or>},
    {"__ior__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     bitwise<Bits::Or>},
    {"__ior__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     bitwise<Bits::Or>},
    {"bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor",
     bitwise<Bits::Xor>},
    {"bitwise_xor_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     bitwise<Bits::Xor>},
    {"bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor",
     bitwise<Bits::Xor>},
    {"bitwise_xor_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     bitwise<Bits::Xor>},
    {"bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     bitwise<Bits::Xor>},
    {"__xor__.Tensor(Tensor self, Tensor other) -> Tensor", bitwise<Bits::Xor>},
    {"__xor__.Scalar(Tensor self, Scalar other) -> Tensor", bitwise<Bits::Xor>},
    {"__ixor__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
     bitwise<Bits::Xor>},
    {"__ixor__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
     bitwise<Bits::Xor>},
    {"bitwise_not(Tensor self) -> Tensor", bitwiseNot},
    {"bitwise_not_(Tensor(a!) self) -> Tensor(a!)", bitwiseNot},
    {"equal(Tensor self, Tensor other) -> bool", equal},
};

} // namespace

ArrayRef<OperatorRow> getComparisonRows() { return rows; }

} // namespace polyrank::frontends::aten
