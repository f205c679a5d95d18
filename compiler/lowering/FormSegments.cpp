// FormSegments: cuts the microbatch region into a first one and the rest.

#include "compiler/lowering/Passes.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;

namespace polyrank::lowering {
#define GEN_PASS_DEF_FORMSEGMENTS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// Copies the body to `region`. With `sums`, block arguments after the slices
/// that the yielded sums are added to.
static void buildSegment(OpBuilder &builder, graph::MicrobatchesOp op,
                         Region &region, bool withSums) {
  OpBuilder::InsertionGuard guard(builder);
  Block &body = op.getBody().front();
  Block *block = builder.createBlock(&region);
  IRMapping mapping;
  auto addArguments = [&](auto arguments) {
    for (BlockArgument argument : arguments)
      mapping.map(argument,
                  block->addArgument(argument.getType(), argument.getLoc()));
  };
  addArguments(body.getArguments().take_front(1 + op.getOf().size()));
  SmallVector<Value> sums;
  if (withSums)
    for (Value sum : op.getResults().take_front(op.getNumSums()))
      sums.push_back(block->addArgument(sum.getType(), sum.getLoc()));
  addArguments(op.getCarried());

  for (Operation &inner : body.without_terminator())
    builder.clone(inner, mapping);
  auto yield = cast<graph::YieldOp>(body.getTerminator());
  SmallVector<Value> results;
  for (auto [i, value] : llvm::enumerate(yield.getSum())) {
    Value part = mapping.lookupOrDefault(value);
    if (withSums) {
      // Where the part is computed, so that it need not be kept until the end.
      Operation *producer = part.getDefiningOp();
      if (producer && producer->getBlock() == block)
        builder.setInsertionPointAfter(producer);
      else
        builder.setInsertionPointToEnd(block);
      part = graph::AddOp::create(builder, value.getLoc(), sums[i], part);
      if (producer)
        graph::copyProvenance(producer, part.getDefiningOp());
      builder.setInsertionPointToEnd(block);
    }
    results.push_back(part);
  }
  for (Value value : yield.getCarry())
    results.push_back(mapping.lookupOrDefault(value));
  rank::YieldOp::create(builder, yield.getLoc(), results);
}

namespace {
struct FormSegmentsPass : lowering::impl::FormSegmentsBase<FormSegmentsPass> {
  void runOnOperation() override {
    SmallVector<graph::MicrobatchesOp> regions;
    getOperation().walk(
        [&](graph::MicrobatchesOp op) { regions.push_back(op); });
    for (graph::MicrobatchesOp op : regions) {
      OpBuilder builder(op);
      auto segments = rank::MicrobatchesOp::create(
          builder, op.getLoc(), op.getResultTypes(), op.getCount(), op.getOf(),
          op.getCarry(), /*buffers=*/nullptr, /*first_buffers=*/nullptr,
          /*rest_buffers=*/nullptr);
      buildSegment(builder, op, segments.getFirst(), /*withSums=*/false);
      buildSegment(builder, op, segments.getRest(), /*withSums=*/true);
      op.replaceAllUsesWith(segments.getResults());
      op.erase();
    }
  }
};
} // namespace
