// Queries on commands, for the passes that order them.

#include "compiler/overlap/Commands.h"

#include "dialects/graph/Boundary.h"

using namespace mlir;
using namespace polyrank;

static void sinkViews(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!isa<rank::ViewOp>(op))
      continue;
    Operation *first = nullptr;
    for (Operation *user : op.getUsers()) {
      Operation *above = block.findAncestorOpInBlock(*user);
      if (!first || above->isBeforeInBlock(first))
        first = above;
    }
    if (first)
      op.moveBefore(first);
  }
}

void overlap::forEachRange(
    Block &block,
    llvm::function_ref<void(Block::iterator, Block::iterator)> visit,
    llvm::function_ref<void(Block &, int64_t)> visitPart) {
  sinkViews(block);
  auto begin = block.begin();
  for (auto it = block.begin(); it != block.end(); ++it) {
    auto loop = dyn_cast<rank::MicrobatchesOp>(*it);
    if (!loop && !it->hasTrait<OpTrait::IsTerminator>())
      continue;
    visit(begin, it);
    if (loop)
      for (auto [part, runs] :
           llvm::zip_equal(loop.getBlocks(), loop.countRuns()))
        visitPart(*part, runs);
    begin = std::next(it);
  }
}

bool overlap::grows(rank::CollectiveOp op) {
  int64_t before = 0, after = 0;
  for (auto [operand, result] :
       llvm::zip_equal(op->getOperands(), op->getResults())) {
    before += rank::getByteSize(operand.getType());
    after += rank::getByteSize(result.getType());
  }
  return after > before;
}

bool overlap::addsReduced(Operation *op,
                          llvm::function_ref<bool(Operation *)> isInRange) {
  bool usesCollective = false;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    auto collective = dyn_cast_if_present<rank::CollectiveOp>(producer);
    usesCollective |= collective != nullptr;
    if (collective ? collective.getReduction() == runtime::Reduction::None
                   : producer && isInRange(producer))
      return false;
  }
  return usesCollective && isa<rank::LaunchOp>(op);
}

Value overlap::getViewed(Value value) {
  while (auto command = value.getDefiningOp<rank::CommandOp>()) {
    if (isa<rank::WaitOp>(command))
      break;
    auto view = command.getView(cast<OpResult>(value).getResultNumber());
    if (!view)
      break;
    value = command->getOperand(view->operand);
  }
  return value;
}

Value overlap::getReplaced(Block &block, unsigned number) {
  if (auto function = dyn_cast<func::FuncOp>(block.getParentOp())) {
    auto replaced = graph::Boundary(function).getReplaced(number);
    return replaced ? function.getArgument(*replaced) : Value();
  }
  auto segment = cast<rank::SegmentOp>(block.getParentOp());
  auto loop = cast<rank::MicrobatchesOp>(segment->getParentOp());
  Value result = loop.getResult(segment.getGives()[number]);
  for (BlockArgument argument : block.getArguments())
    if (rank::MicrobatchesOp::Source source = loop.getSource(argument);
        !source.isSlice && source.value == result)
      return argument;
  return {};
}
