// Computes the lifetimes of the values of a rank's program.

#include "compiler/lowering/CommandLiveness.h"

#include "llvm/ADT/SetVector.h"

#include <map>
#include <set>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

// If an op is at position p, ops inserted before it are at p - 2 and p - 1.
static constexpr int64_t spacing = 4;

CommandLiveness::CommandLiveness(func::FuncOp function) {
  number(function.getBody().front());
}

void CommandLiveness::number(Block &block) {
  next += spacing;
  blocks[&block].first = next;
  for (Operation &op : block) {
    auto loop = dyn_cast<rank::MicrobatchesOp>(op);
    if (loop)
      for (Block *part : loop.getBlocks())
        number(*part);
    auto iterated = dyn_cast<rank::LoopOp>(op);
    if (iterated) {
      next += spacing;
      entries[&op] = next;
      number(iterated.getBody().front());
    }
    next += spacing;
    positions[&op] = next;
    opsByPosition.resize(next + 1);
    opsByPosition[next] = &op;
    if (loop)
      followRuns(loop);
    // Iterations leave the elements of stacks for later ones and for the end of
    // the loop.
    if (iterated)
      for (OpResult stack : op.getResults().take_front(iterated.getNumStacks()))
        passed[stack] = {blocks.at(&iterated.getBody().front())};
  }
  blocks[&block].last = next;
}

void CommandLiveness::insert(Operation *inserted, Operation *op, int phase) {
  auto entry = entries.find(op);
  positions[inserted] =
      (entry == entries.end() ? positions.at(op) : entry->second) - 2 + phase;
}

Operation *CommandLiveness::getCollective(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto wait = dyn_cast_if_present<rank::WaitOp>(op))
    return wait.getCollective();
  return isa_and_present<rank::CollectiveOp>(op) ? op : nullptr;
}

void CommandLiveness::followRuns(rank::MicrobatchesOp loop) {
  SmallVector<rank::SegmentOp, 4> segments = loop.getSegments();
  int64_t end = -1; // of the segments that ran so far
  for (auto run : loop.getRuns()) {
    rank::SegmentOp segment = segments[run.segment];
    endsBeforeLastRun[segment] = end;
    end = std::max(end, blocks.at(&segment.getBody().front()).last);
  }
  for (OpResult result : loop.getResults())
    passed[result] = findPassed(loop, result.getResultNumber());
}

/// The end of the lifetime in `loop` of the initial value of carried result
/// `result`; -1 if the loop does not need it.
int64_t CommandLiveness::getEndOfInitial(rank::MicrobatchesOp loop,
                                         unsigned result,
                                         Operation *collective) const {
  int64_t end = -1;
  for (rank::SegmentOp segment : loop.getSegments())
    for (BlockArgument argument :
         segment.getBody().getArguments().drop_front(loop.getOf().size())) {
      unsigned number =
          segment.getTakes()[argument.getArgNumber() - loop.getOf().size()];
      if (number == result &&
          loop.getSource(argument).value == loop.getInitial(result))
        end = std::max({end, endsBeforeLastRun.at(segment),
                        get(argument, collective).last});
    }
  return end;
}

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
    auto segment = dyn_cast<rank::SegmentOp>(user->getParentOp());
    if (auto loop = dyn_cast<rank::MicrobatchesOp>(user)) {
      unsigned index = use.getOperandNumber(), numOf = loop.getOf().size();
      if (index >= numOf)
        last = getEndOfInitial(
            loop, loop.getNumResults() - loop.getCarry().size() + index - numOf,
            collective);
    } else if (auto iterated = dyn_cast<rank::LoopOp>(user)) {
      unsigned index = use.getOperandNumber(), numOf = iterated.getOf().size();
      if (index >= numOf && index < numOf + iterated.getCarry().size())
        last = entries.at(user);
    }
    if (segment && user->getBlock() != block)
      last = std::max(last, endsBeforeLastRun.at(segment));
    lifetime.last = std::max(lifetime.last, last);
  }
  return lifetime;
}

SmallVector<Lifetime> CommandLiveness::findPassed(rank::MicrobatchesOp loop,
                                                  unsigned result) const {
  SmallVector<rank::SegmentOp, 4> segments = loop.getSegments();
  SmallVector<rank::MicrobatchesOp::Run> runs = loop.getRuns();
  // In a stash, a run leaves and finds the value of its own microbatch; other
  // results have one value for all.
  int64_t slots = loop.getSlots(result);
  bool isStash = slots > 0;
  auto keyOf = [&](int64_t i) { return isStash ? runs[i].microbatch : 0; };
  std::map<int64_t, int64_t> lastUse;
  for (int64_t i = 0, count = runs.size(); i < count; ++i)
    if (llvm::is_contained(segments[runs[i].segment].getTakes(), result))
      lastUse[keyOf(i)] = i;
  // After the loop each slot is read as it was left.
  if (!loop.getResult(result).use_empty()) {
    std::map<int64_t, int64_t> left;
    for (int64_t i = 0, count = runs.size(); i < count; ++i)
      if (llvm::is_contained(segments[runs[i].segment].getGives(), result))
        left[isStash ? runs[i].microbatch % slots : 0] = keyOf(i);
    for (auto [slot, key] : left)
      lastUse[key] = runs.size();
  }
  std::set<int64_t> live; // microbatches whose value is there
  llvm::SetVector<Block *> parts;
  for (int64_t i = 0, count = runs.size(); i < count; ++i) {
    rank::SegmentOp segment = segments[runs[i].segment];
    bool isTaken = llvm::is_contained(segment.getTakes(), result),
         isGiven = llvm::is_contained(segment.getGives(), result);
    std::erase_if(live, [&](int64_t key) {
      auto last = lastUse.find(key);
      return last == lastUse.end() || last->second < i;
    });
    bool passes = llvm::any_of(live, [&](int64_t key) {
      bool isOwn = key == keyOf(i);
      return !isOwn || (!isGiven && (!isTaken || lastUse.at(key) > i));
    });
    if (passes)
      parts.insert(&segment.getBody().front());
    if (isGiven)
      live.insert(keyOf(i));
  }
  return llvm::map_to_vector(parts,
                             [&](Block *block) { return blocks.at(block); });
}
