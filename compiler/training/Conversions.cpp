// Narrows values and builds the conversions of their users.

#include "compiler/training/Conversions.h"

#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// Returns true if each element of the op's result is an element of its one
/// operand.
static bool isMovement(Operation *op) {
  return isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp,
                         graph::BroadcastOp, pipeline::TransferOp>(op);
}

BlockArgument Conversions::getArgument(Value value) {
  while (isMovement(value.getDefiningOp()) ||
         value.getDefiningOp<graph::ConvertOp>())
    value = value.getDefiningOp()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(value);
  bool isOfStep =
      argument && isa<func::FuncOp>(argument.getOwner()->getParentOp());
  return isOfStep ? argument : BlockArgument();
}

Value Conversions::convert(Value value, Type element) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  auto op = graph::ConvertOp::create(builder, value.getLoc(), value, element);
  if (Operation *from = value.getDefiningOp())
    graph::copyProvenance(from, op);
  return op;
}

Value Conversions::inLow(Value value) {
  if (isLow(value))
    return value;
  if (Value known = lowOf.lookup(value))
    return known;
  Value result;
  Operation *movement = value.getDefiningOp();
  if (getArgument(value) && isMovement(movement)) {
    IRMapping mapping;
    mapping.map(movement->getOperand(0), inLow(movement->getOperand(0)));
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfter(movement);
    result = builder.clone(*movement, mapping)->getResult(0);
    result.setType(cast<RankedTensorType>(value.getType()).clone(low));
  } else {
    result = convert(value, low);
  }
  lows.insert(result);
  return lowOf[value] = result;
}

Value Conversions::inWide(Value value) {
  if (!isLow(value))
    return value;
  if (Value known = wideOf.lookup(value))
    return known;
  return wideOf[value] = convert(value, getWide());
}

void Conversions::narrow(Value value) {
  lows.insert(value);
  value.setType(cast<RankedTensorType>(value.getType()).clone(low));
}

void Conversions::round(Value value) {
  Value rounded = convert(value, low);
  lows.insert(rounded);
  value.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
}
