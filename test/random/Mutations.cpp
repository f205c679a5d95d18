// Mutations of what one rank says: check-ranks finds exactly those that matter.

#include "test/random/Mutations.h"

#include <map>
#include <set>

#include "compiler/lowering/SegmentPrograms.h"
#include "runtime/progress/CheckPrograms.h"
#include "test/runtime/progress/FullProduct.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;

namespace {

using Sequence = std::vector<Communication>;

/// The communication of a member of a group, command by command.
using Said =
    std::vector<std::tuple<uint64_t, std::string, std::vector<int64_t>>>;

} // namespace

static std::map<std::vector<int64_t>, Said> byGroup(const Sequence &sequence) {
  std::map<std::vector<int64_t>, Said> groups;
  for (const Communication &each : sequence)
    if (!each.isWait())
      groups[each.group].emplace_back(each.id, each.kind, each.bytes);
  return groups;
}

/// Returns another group that this program uses.
static std::vector<int64_t> otherGroup(const RankSequences &ranks,
                                       const std::vector<int64_t> &group,
                                       Random &random) {
  std::set<std::vector<int64_t>> groups{{0}, {0, 1}};
  for (const Sequence &sequence : ranks)
    for (const Communication &each : sequence)
      if (!each.isWait())
        groups.insert(each.group);
  std::vector<int64_t> reversed(group.rbegin(), group.rend());
  groups.insert(reversed);
  groups.erase(group);
  std::vector<std::vector<int64_t>> list(groups.begin(), groups.end());
  return random.pick(list);
}

/// Waits refer to commands by number; a removed command becomes none.
static void erase(Sequence &sequence, int64_t at) {
  sequence.erase(sequence.begin() + at);
  for (Communication &each : sequence)
    if (each.started >= at)
      each.started = each.started == at ? -1 : each.started - 1;
}

static void insert(Sequence &sequence, int64_t at, Communication command) {
  for (Communication &each : sequence)
    each.started += each.started >= at;
  command.started += command.started >= at;
  sequence.insert(sequence.begin() + at, std::move(command));
}

/// If it has a wait, that still waits for it.
static void move(Sequence &sequence, int64_t from, int64_t to) {
  Communication moved = sequence[from];
  std::vector<int64_t> waits;
  erase(sequence, from);
  for (auto [i, each] : llvm::enumerate(sequence))
    if (each.isWait() && each.started == -1)
      waits.push_back(i);
  if (moved.isWait() && moved.started >= from)
    --moved.started;
  insert(sequence, to, moved);
  for (int64_t wait : waits)
    sequence[wait + (wait >= to)].started = to;
}

/// Makes one change of one rank's sequence, and describes it.
static std::string mutate(RankSequences &ranks, Random &random) {
  int64_t rank = random.below(ranks.size());
  Sequence &sequence = ranks[rank];
  int64_t at = random.below(sequence.size());
  Communication &command = sequence[at];
  std::string where =
      "rank " + std::to_string(rank) + ", command " + std::to_string(at);
  // A wait has no content of its own.
  switch (command.isWait() ? random.pick({5, 6, 7}) : random.below(8)) {
  case 0:
    command.id = random.chance(50) ? command.id + 1000
                                   : sequence[random.below(sequence.size())].id;
    return where + ": another id";
  case 1:
    command.kind = random.chance(50)
                       ? "broadcast"
                       : sequence[random.below(sequence.size())].kind;
    return where + ": another kind";
  case 2: // as a permute that takes from another member
    command.kind += " peer " + std::to_string(random.below(ranks.size()));
    return where + ": another peer";
  case 3:
    command.bytes[random.below(command.bytes.size())] += random.pick({-4, 4});
    return where + ": another size";
  case 4:
    command.group = otherGroup(ranks, command.group, random);
    return where + ": another group";
  case 5:
    erase(sequence, at);
    return where + ": missing";
  case 6:
    insert(sequence, random.below(sequence.size() + 1), command);
    return where + ": twice";
  default: {
    int64_t to = random.below(sequence.size());
    move(sequence, at, to);
    return where + ": moved to " + std::to_string(to);
  }
  }
}

/// By the definition, without check-ranks' algorithm.
static bool mustBeRejected(const RankSequences &before,
                           const RankSequences &after) {
  for (auto [left, right] : llvm::zip_equal(before, after))
    if (byGroup(left) != byGroup(right))
      return true;
  return findCommunicationError(after).has_value();
}

std::string polyrank::test::checkMutations(ModuleOp module, int64_t count,
                                           Random &random,
                                           MutationCounts &counts) {
  std::vector<progress::RankPrograms> segments;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto found = *lowering::getSegmentPrograms(function);
    for (lowering::SegmentPrograms &segment : found)
      if (!segment.commands.empty())
        segments.push_back(std::move(segment.ranks));
  }
  for (int64_t i = 0; i < count && !segments.empty(); ++i) {
    const progress::RankPrograms &segment =
        segments[random.below(segments.size())];
    RankSequences before = expand(segment);
    if (progress::checkPrograms(segment).fault ||
        findCommunicationError(before))
      return "the program itself is rejected";
    RankSequences after = before;
    std::string what = mutate(after, random);
    bool expected = mustBeRejected(before, after);
    auto fault = progress::checkPrograms(toPrograms(after)).fault;
    if (fault.has_value() != expected)
      return what +
             (expected ? " is accepted" : " is rejected: " + fault->toString());
    ++(expected ? counts.rejected : counts.equivalent);
  }
  return "";
}

/// The ops before which `op` may be placed in its block.
static SmallVector<Operation *> getPlaces(Operation *op) {
  Block *block = op->getBlock();
  SmallVector<Operation *> places;
  Operation *first = nullptr; // after the last op that it uses
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp();
        producer && producer->getBlock() == block &&
        (!first || first->isBeforeInBlock(producer)))
      first = producer;
  for (Operation &place : llvm::make_range(
           first ? std::next(first->getIterator()) : block->begin(),
           block->end())) {
    if (&place != op && op->getNextNode() != &place)
      places.push_back(&place);
    if (llvm::is_contained(op->getUsers(), &place) ||
        llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return place.isAncestor(user); }))
      break;
  }
  return places;
}

std::string polyrank::test::mutateQueue(ModuleOp module, Random &random) {
  SmallVector<rank::WaitOp> waits;
  module.walk([&](rank::WaitOp op) { waits.push_back(op); });
  if (waits.empty())
    return "";
  rank::WaitOp wait = random.pick(waits);
  Operation *started = wait.getCollective();
  auto move = [&](Operation *op, StringRef what) -> std::string {
    SmallVector<Operation *> places = getPlaces(op);
    if (places.empty())
      return (what + " has no other place").str();
    op->moveBefore(random.pick(places));
    return (what + " moved").str();
  };
  switch (random.below(6)) {
  case 0:
    return move(started, "a start");
  case 1:
    return move(wait, "a wait");
  case 2: {
    OpBuilder builder(wait->getContext());
    builder.setInsertionPointAfter(wait);
    builder.clone(*wait);
    return "a wait repeated";
  }
  case 3:
    if (TypeRange(wait.getOutputs()) != TypeRange(wait.getOf()))
      return move(wait, "a wait");
    wait->replaceAllUsesWith(wait.getOf());
    wait->erase();
    return "a wait dropped";
  default: {
    SmallVector<Operation *> others;
    for (Operation &op : started->getBlock()->without_terminator())
      if (&op != started && &op != wait.getOperation())
        others.push_back(&op);
    return others.empty() ? move(wait, "a wait")
                          : move(random.pick(others), "another command");
  }
  }
}
