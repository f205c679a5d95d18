// FormSegments: cuts the microbatch region into a first one, the rest and the
// last.

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

namespace {
/// Cuts one region into the microbatches of a loop and the last one.
class SegmentFormer {
public:
  explicit SegmentFormer(graph::MicrobatchesOp op)
      : op(op), body(op.getBody().front()), builder(op) {}

  void run();

private:
  SmallVector<Value> copyBody(ValueRange slices, ValueRange sums,
                              ValueRange carried);
  void buildBlock(rank::MicrobatchesOp loop, Region &region);
  Value getIndices();

  graph::MicrobatchesOp op;
  Block &body;
  OpBuilder builder;
};
} // namespace

/// Copies the body to where the builder stands, for the microbatch that takes
/// `slices`, the first of which is its number. Where there are `sums`, what the
/// body yields is added to them. Returns the sums and what is carried on.
SmallVector<Value> SegmentFormer::copyBody(ValueRange slices, ValueRange sums,
                                           ValueRange carried) {
  IRMapping mapping;
  mapping.map(body.getArguments().take_front(slices.size()), slices);
  mapping.map(op.getCarried(), carried);
  for (Operation &inner : body.without_terminator())
    builder.clone(inner, mapping);
  auto yield = cast<graph::YieldOp>(body.getTerminator());
  SmallVector<Value> results;
  for (auto [i, value] : llvm::enumerate(yield.getSum())) {
    Value part = mapping.lookupOrDefault(value);
    if (!sums.empty()) {
      OpBuilder::InsertionGuard guard(builder);
      // Where the part is computed, so that it need not be kept until the end.
      if (value.getParentBlock() == &body && value.getDefiningOp())
        builder.setInsertionPointAfter(part.getDefiningOp());
      Operation *producer = part.getDefiningOp();
      part = graph::AddOp::create(builder, value.getLoc(), sums[i], part);
      if (producer)
        graph::copyProvenance(producer, part.getDefiningOp());
    }
    results.push_back(part);
  }
  for (Value value : yield.getCarry())
    results.push_back(mapping.lookupOrDefault(value));
  return results;
}

/// `first`, or `rest`, which has the sums so far as further arguments.
void SegmentFormer::buildBlock(rank::MicrobatchesOp loop, Region &region) {
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&region);
  unsigned numSlices = loop.getOf().size();
  unsigned numSums = &region == &loop.getRest() ? op.getNumSums() : 0;
  SmallVector<Value> alike(body.getArguments().take_front(numSlices));
  llvm::append_range(alike, op.getResults().take_front(numSums));
  llvm::append_range(alike, op.getCarried());
  for (Value value : alike)
    block->addArgument(value.getType(), value.getLoc());
  ValueRange arguments = block->getArguments();
  rank::YieldOp::create(builder, body.getTerminator()->getLoc(),
                        copyBody(arguments.take_front(numSlices),
                                 arguments.slice(numSlices, numSums),
                                 arguments.drop_front(numSlices + numSums)));
}

/// The numbers of all microbatches.
Value SegmentFormer::getIndices() {
  SmallVector<int64_t> numbers;
  for (int64_t number = 0; number < static_cast<int64_t>(op.getCount()); ++number)
    numbers.push_back(number);
  auto values = builder.getI64TensorAttr(numbers);
  return rank::ConstantOp::create(builder, op.getLoc(), values.getType(),
                                  values, /*buffers=*/nullptr);
}

void SegmentFormer::run() {
  int64_t last = op.getCount() - 1;
  SmallVector<Value> of = {getIndices()};
  llvm::append_range(of, op.getOf());
  SmallVector<Value> sums, carried(op.getCarry());
  if (last > 0) {
    auto loop = rank::MicrobatchesOp::create(builder, op.getLoc(),
                                             op.getResultTypes(), last, of,
                                             op.getCarry(), /*buffers=*/nullptr);
    buildBlock(loop, loop.getFirst());
    if (last > 1)
      buildBlock(loop, loop.getRest());
    sums.assign(loop.result_begin(), loop.result_begin() + loop.getNumSums());
    carried.assign(loop.result_begin() + loop.getNumSums(), loop.result_end());
  }
  SmallVector<Value> slices;
  for (Value value : of) {
    auto type = cast<RankedTensorType>(value.getType());
    auto slice = RankedTensorType::get(type.getShape().drop_front(),
                                       type.getElementType());
    slices.push_back(rank::ViewOp::create(builder, op.getLoc(), slice, value,
                                          last * slice.getNumElements(),
                                          /*buffers=*/nullptr));
  }
  op.replaceAllUsesWith(copyBody(slices, sums, carried));
  op.erase();
}

namespace {
struct FormSegmentsPass : lowering::impl::FormSegmentsBase<FormSegmentsPass> {
  void runOnOperation() override {
    SmallVector<graph::MicrobatchesOp> regions;
    getOperation().walk(
        [&](graph::MicrobatchesOp op) { regions.push_back(op); });
    for (graph::MicrobatchesOp op : regions)
      SegmentFormer(op).run();
  }
};
} // namespace
