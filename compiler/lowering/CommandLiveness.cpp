// When each value of a rank's program is needed.

#include "compiler/lowering/CommandLiveness.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

// An op stands at position p; what is inserted before it, at p - 2 and p - 1.
static constexpr int64_t spacing = 4;

CommandLiveness::CommandLiveness(func::FuncOp function) {
  number(function.getBody().front());
}

void CommandLiveness::number(Block &block) {
  next += spacing;
  blocks[&block].first = next;
  for (Operation &op : block) {
    if (auto loop = dyn_cast<rank::MicrobatchesOp>(op))
      for (Block *part : loop.getBlocks())
        number(*part);
    next += spacing;
    positions[&op] = next;
    opsByPosition.resize(next + 1);
    opsByPosition[next] = &op;
  }
  blocks[&block].last = next;
}

void CommandLiveness::insert(Operation *inserted, Operation *op, int phase) {
  positions[inserted] = positions.at(op) - 2 + phase;
}

Operation *CommandLiveness::getCollective(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto wait = dyn_cast_if_present<rank::WaitOp>(op))
    return wait.getCollective();
  return isa_and_present<rank::CollectiveOp>(op) ? op : nullptr;
}

/// What `rest` uses of outside, each microbatch needs.
Lifetime CommandLiveness::get(Value value, Operation *collective) const {
  Block *block = value.getParentBlock();
  Lifetime lifetime;
  if (Operation *op = value.getDefiningOp())
    lifetime.first = positions.at(op);
  else
    lifetime.first = blocks.at(block).first;
  lifetime.last = lifetime.first;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto wait = dyn_cast<rank::WaitOp>(user);
        wait && wait.getCollective().getOperation() == collective)
      continue;
    int64_t last = positions.at(user);
    auto outer = dyn_cast<rank::MicrobatchesOp>(user->getParentOp());
    if (auto loop = dyn_cast<rank::MicrobatchesOp>(user)) {
      unsigned index = use.getOperandNumber();
      if (index >= loop.getOf().size())
        // Carried: read in the first microbatch, through its block argument.
        last = get(loop.getFirst().getArgument(index), collective).last;
    } else if (user->getBlock() != block && outer &&
               user->getParentRegion() == &outer.getRest()) {
      last = blocks.at(user->getBlock()).last;
    }
    lifetime.last = std::max(lifetime.last, last);
  }
  return lifetime;
}
