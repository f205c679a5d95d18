// Selection between values: extrema, bounds, conditions.

#include "frontends/aten/Call.h"
#include "frontends/emit/Activations.h"
#include "frontends/emit/Functions.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

template <typename Op>
LogicalResult extremum(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  return c.give(c.emit.binary<Op>(both->operands[0], both->operands[1]),
                both->type);
}

/// Bounds are numbers or tensors; either may be None.
LogicalResult clampTo(Call &c, const Value &low, const Value &high) {
  SmallVector<Value> values = {c["self"]};
  for (const Value *bound : {&low, &high})
    if (!bound->isNone())
      values.push_back(*bound);
  auto all = c.promote(values);
  if (failed(all))
    return failure();
  Imported x = all->operands[0];
  size_t at = 1;
  if (!low.isNone())
    x = clipped(c.emit, x, all->operands[at++], /*isLower=*/true,
                /*passes=*/true);
  if (!high.isNone())
    x = clipped(c.emit, x, all->operands[at], /*isLower=*/false,
                /*passes=*/true);
  return c.give(x, all->type);
}

LogicalResult clamp(Call &c) { return clampTo(c, c["min"], c["max"]); }
LogicalResult clampMin(Call &c) { return clampTo(c, c["min"], {}); }
LogicalResult clampMax(Call &c) { return clampTo(c, {}, c["max"]); }

LogicalResult where(Call &c) {
  auto both = c.promote({c["self"], c["other"]});
  if (failed(both))
    return failure();
  Imported condition = c.as(c["condition"], ElementType::BOOL);
  auto all =
      c.emit.broadcastAll({condition, both->operands[0], both->operands[1]});
  if (failed(all))
    return failure();
  return c.give(c.emit.select((*all)[0], (*all)[1], (*all)[2]), both->type);
}

/// `value` where the mask is true, else self; in the type of self.
LogicalResult maskedFill(Call &c) {
  ElementType type = c.typeOf("self");
  auto all = c.emit.broadcastAll({c.as(c["mask"], ElementType::BOOL),
                                  c.as(c["value"], type), c.read("self")});
  if (failed(all))
    return failure();
  return c.give(
      c.emit.select((*all)[0], c.as((*all)[1], type), c.as((*all)[2], type)),
      type);
}

const OperatorRow rows[] = {
    {"maximum(Tensor self, Tensor other) -> Tensor", extremum<graph::MaxOp>},
    {"max.other(Tensor self, Tensor other) -> Tensor", extremum<graph::MaxOp>},
    {"minimum(Tensor self, Tensor other) -> Tensor", extremum<graph::MinOp>},
    {"min.other(Tensor self, Tensor other) -> Tensor", extremum<graph::MinOp>},
    {"clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp},
    {"clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> "
     "Tensor(a!)",
     clamp},
    {"clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> "
     "Tensor",
     clamp},
    {"clamp_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) "
     "-> Tensor(a!)",
     clamp},
    {"clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp},
    {"clip_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> "
     "Tensor(a!)",
     clamp},
    {"clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> "
     "Tensor",
     clamp},
    {"clip_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) "
     "-> Tensor(a!)",
     clamp},
    {"clamp_min(Tensor self, Scalar min) -> Tensor", clampMin},
    {"clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)", clampMin},
    {"clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", clampMin},
    {"clamp_min_.Tensor(Tensor(a!) self, Tensor min) -> Tensor(a!)", clampMin},
    {"clamp_max(Tensor self, Scalar max) -> Tensor", clampMax},
    {"clamp_max_(Tensor(a!) self, Scalar max) -> Tensor(a!)", clampMax},
    {"clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", clampMax},
    {"clamp_max_.Tensor(Tensor(a!) self, Tensor max) -> Tensor(a!)", clampMax},
    {"where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
     where},
    {"where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> "
     "Tensor",
     where},
    {"where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> "
     "Tensor",
     where},
    {"where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
     where},
    {"masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
     maskedFill},
    {"masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> "
     "Tensor(a!)",
     maskedFill},
    {"masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
     maskedFill},
    {"masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> "
     "Tensor(a!)",
     maskedFill},
};

} // namespace

ArrayRef<OperatorRow> getSelectionRows() { return rows; }

} // namespace polyrank::frontends::aten
