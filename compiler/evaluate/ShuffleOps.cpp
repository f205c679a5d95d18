// shuffle-ops: puts the ops of each block into another topological order.

#include <random>

#include "compiler/evaluate/Passes.h"
#include "mlir/IR/Operation.h"

namespace polyrank::evaluate {
#define GEN_PASS_DEF_SHUFFLEOPSPASS
#include "compiler/evaluate/Passes.h.inc"
} // namespace polyrank::evaluate

using namespace mlir;
using namespace polyrank;

/// Puts the ops of `block` into a random order in which operands (also those
/// used in regions) come first; ops with effects other than reads keep their
/// order.
static void shuffle(Block &block, std::mt19937_64 &random) {
  SmallVector<Operation *> pending;
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>())
      pending.push_back(&op);
  llvm::DenseMap<Operation *, unsigned> missing;
  llvm::DenseMap<Operation *, SmallVector<Operation *>> users;
  for (Operation *op : pending) {
    llvm::SmallPtrSet<Operation *, 4> producers;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (producer->getBlock() == &block && producer != op)
            producers.insert(producer);
    });
    missing[op] = producers.size();
    for (Operation *producer : producers)
      users[producer].push_back(op);
  }
  SmallVector<Operation *> ready;
  for (Operation *op : pending)
    if (missing[op] == 0)
      ready.push_back(op);
  while (!ready.empty()) {
    size_t choice = random() % ready.size();
    Operation *op = ready[choice];
    ready.erase(ready.begin() + choice);
    if (Operation *terminator =
            block.mightHaveTerminator() ? block.getTerminator() : nullptr)
      op->moveBefore(terminator);
    else
      op->moveBefore(&block, block.end());
    for (Operation *user : users[op])
      if (--missing[user] == 0)
        ready.push_back(user);
  }
}

namespace {
struct ShuffleOps : evaluate::impl::ShuffleOpsPassBase<ShuffleOps> {
  using ShuffleOpsPassBase::ShuffleOpsPassBase;

  void runOnOperation() override {
    std::mt19937_64 random(seed);
    SmallVector<Block *> blocks;
    getOperation()->walk([&](Block *block) {
      if (block->getParentOp() != getOperation())
        blocks.push_back(block);
    });
    for (Block *block : blocks)
      shuffle(*block, random);
  }
};
} // namespace
