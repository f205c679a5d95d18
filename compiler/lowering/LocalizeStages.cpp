// The function that one device runs: transfers between stages.

#include "compiler/lowering/Localizer.h"

#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

/// Lowers a transfer from the value's coordinate to the one that needs it; only
/// these two ends take part.
LogicalResult Localizer::localizeTransfer(pipeline::TransferOp op) {
  Value input = op.getInput(), result = op.getResult();
  std::optional<int64_t> from = getCoordinate(input),
                         to = getCoordinate(result);
  if (!to)
    return op.emitOpError("leads nowhere: place-values comes first");
  if (!from || from == to) {
    if (isHere(result))
      mapping.map(result, mapping.lookup(input));
    return success();
  }
  if (!isHere(input) && !isHere(result))
    return success();
  auto axes = rank::AxesAttr::get(mesh, mesh.getAxis(place->axis));
  int64_t slots =
      isa<graph::MicrobatchesOp>(op->getParentOp()) ? place->slots : 1;
  if (isHere(input)) {
    // Send immediately, without waiting for later ops.
    Block *block = builder.getInsertionBlock();
    Value value = mapping.lookup(input);
    OpBuilder::InsertionGuard guard(builder);
    Block::iterator point = builder.getInsertionPoint();
    while (point != block->begin() && isPure(&*std::prev(point)) &&
           &*std::prev(point) != value.getDefiningOp())
      --point;
    builder.setInsertionPoint(block, point);
    auto send = rank::SendOp::create(builder, op.getLoc(), value, axes, *from,
                                     *to, ids.at(op), slots, nullptr, nullptr);
    graph::setStage(send, op.getFrom());
    return success();
  }
  mapping.map(result, rank::RecvOp::create(
                          builder, op.getLoc(), localType(result.getType()),
                          axes, *from, *to, ids.at(op), slots, nullptr, nullptr)
                          .getOutput());
  return success();
}

/// The part of the joined value at this coordinate, or the identity.
void Localizer::localizeJoin(pipeline::JoinOp op) {
  Value sum;
  for (Value input : op.getInputs()) {
    Value part = mapping.lookupOrNull(input);
    if (!part)
      continue;
    if (!sum)
      sum = part;
    else if (op.getKind() == sharding::ReductionKind::Sum)
      sum = graph::AddOp::create(builder, op.getLoc(), sum, part);
    else if (op.getKind() == sharding::ReductionKind::Max)
      sum = graph::MaxOp::create(builder, op.getLoc(), sum, part);
    else
      sum = graph::MinOp::create(builder, op.getLoc(), sum, part);
  }
  if (!sum)
    sum = graph::splat(
        builder, op.getLoc(), cast<RankedTensorType>(localType(op.getType())),
        sharding::fillValue(sharding::identityFill(op.getKind())));
  mapping.map(op.getResult(), sum);
}
