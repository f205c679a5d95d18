// The function that one device runs: its ops.

#include "compiler/lowering/Localizer.h"

#include "compiler/lowering/LowerMovement.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Sharding.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

/// After `partition` every tensor of a function has a layout, over one mesh.
LogicalResult Localizer::checkPartitioned() {
  bool whole = false;
  auto check = [&](Location location, Type type) -> LogicalResult {
    sharding::LayoutAttr layout = sharding::getLayout(type);
    if (!layout)
      whole = true;
    else if (!mesh)
      mesh = layout.getMesh();
    else if (mesh != layout.getMesh())
      return emitError(location) << "is laid out over " << layout.getMesh()
                                 << ", other values over " << mesh;
    if (whole && mesh)
      return emitError(location)
             << "a value without a layout, of type " << type
             << ", among values that have one: partition comes first";
    return success();
  };
  for (BlockArgument argument : global.getArguments())
    if (failed(check(argument.getLoc(), argument.getType())))
      return failure();
  WalkResult result = global.getBody().walk([&](Operation *op) {
    if (graph::isInScan(op))
      return WalkResult::advance();
    for (Value value : op->getResults())
      if (failed(check(value.getLoc(), value.getType())))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

Value Localizer::axisIndex(ArrayRef<sharding::AxisRef> axes) {
  auto attribute = rank::AxesAttr::get(mesh, axes);
  for (auto &[known, value] : indices)
    if (known == attribute)
      return value;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&local.getBody().front());
  OpBuilder::Listener *listener = builder.getListener();
  builder.setListener(nullptr); // it belongs to no single op
  Value value = rank::AxisIndexOp::create(
      builder, local.getLoc(), RankedTensorType::get({}, builder.getI64Type()),
      attribute, /*buffers=*/nullptr);
  builder.setListener(listener);
  indices.push_back({attribute, value});
  return value;
}

LogicalResult Localizer::localizeBlock(Block &block) {
  for (Operation &op : block)
    if (failed(localizeOp(op)))
      return failure();
  return success();
}

LogicalResult Localizer::localizeOp(Operation &op) {
  if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op))
    return localizeMicrobatches(microbatches);
  if (auto end = dyn_cast<func::ReturnOp>(op))
    return localizeReturn(end);
  graph::ProvenanceCopier copier(&op);
  builder.setListener(&copier);
  llvm::scope_exit restore([&] { builder.setListener(nullptr); });
  if (auto transfer = dyn_cast<pipeline::TransferOp>(op))
    return localizeTransfer(transfer);
  if (!llvm::all_of(op.getResults(),
                    [&](Value value) { return isHere(value); }))
    return success();
  if (auto join = dyn_cast<pipeline::JoinOp>(op)) {
    localizeJoin(join);
    return success();
  }
  SmallVector<Value> operands = lookup(op.getOperands()), results;
  if (auto graphOp = dyn_cast<graph::GraphOp>(op)) {
    if (failed(graphOp.localize(context, operands, results)))
      return failure();
  } else if (isa<sharding::ShardingDialect>(op.getDialect())) {
    int64_t id = ids.lookup(&op);
    if (failed(lowering::localizeMovement(&op, context, operands, results, id)))
      return failure();
  } else {
    return op.emitOpError("has no lowering to one device");
  }
  for (auto [i, value] : llvm::enumerate(op.getResults())) {
    if (results[i].getType() != localType(value.getType()))
      return op.emitOpError("result ")
             << i << " is " << results[i].getType() << " on one device; by "
             << value.getType() << " it must be " << localType(value.getType());
    mapping.map(value, results[i]);
  }
  return success();
}

LogicalResult Localizer::localizeMicrobatches(graph::MicrobatchesOp op) {
  Block &body = op.getBody().front();
  auto yield = cast<graph::YieldOp>(body.getTerminator());
  auto here = [&](ValueRange values) {
    return llvm::filter_to_vector(values,
                                  [&](Value value) { return isHere(value); });
  };
  // A value of the loop lives where its result lives.
  SmallVector<Value> of = here(op.getOf()), carry = here(op.getCarry()),
                     sums = here(yield.getSum()),
                     carried = here(yield.getCarry()),
                     outcomes = here(op.getResults());
  auto result = graph::MicrobatchesOp::create(
      builder, op.getLoc(), localTypes(ValueRange(outcomes).getTypes()),
      op.getCount(), lookup(of), lookup(carry));
  Block *block = builder.createBlock(&result.getBody());
  for (BlockArgument argument : body.getArguments())
    if (isHere(argument))
      mapping.map(argument, block->addArgument(localType(argument.getType()),
                                               argument.getLoc()));
  for (Operation &inner : body.without_terminator())
    if (failed(localizeOp(inner)))
      return failure();
  graph::YieldOp::create(builder, yield.getLoc(), lookup(sums),
                         lookup(carried));
  builder.setInsertionPointAfter(result);
  mapping.map(outcomes, result.getResults());
  return success();
}
