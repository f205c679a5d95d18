// Mutations of what one rank says: check-ranks finds exactly those that matter.

#include "test/random/Mutations.h"

#include <map>
#include <set>

#include "compiler/lowering/RankSequences.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;
using namespace polyrank::test;

namespace {

using Sequence = std::vector<Communication>;

/// What a member of a group says in it, command by command.
using Said = std::vector<
    std::tuple<uint64_t, std::string, std::vector<int64_t>>>;

} // namespace

static std::map<std::vector<int64_t>, Said> byGroup(const Sequence &sequence) {
  std::map<std::vector<int64_t>, Said> groups;
  for (const Communication &each : sequence)
    groups[each.group].emplace_back(each.id, each.kind, each.bytes);
  return groups;
}

/// Whether ranks that start a communication only all at once come to the end.
static bool ends(const RankSequences &ranks) {
  std::vector<size_t> next(ranks.size(), 0);
  auto isAt = [&](int64_t rank, const Communication &command) {
    return next[rank] < ranks[rank].size() &&
           ranks[rank][next[rank]].id == command.id &&
           ranks[rank][next[rank]].group == command.group;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (next[rank] == ranks[rank].size())
        continue;
      const Communication &mine = ranks[rank][next[rank]];
      if (!llvm::all_of(mine.group,
                        [&](int64_t member) { return isAt(member, mine); }))
        continue;
      for (int64_t member : mine.group)
        ++next[member];
      moved = true;
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (next[rank] < ranks[rank].size())
      return false;
  return true;
}

/// Another value than it has, of those that this program uses.
static std::vector<int64_t> otherGroup(const RankSequences &ranks,
                                       const std::vector<int64_t> &group,
                                       Random &random) {
  std::set<std::vector<int64_t>> groups{{0}, {0, 1}};
  for (const Sequence &sequence : ranks)
    for (const Communication &each : sequence)
      groups.insert(each.group);
  std::vector<int64_t> reversed(group.rbegin(), group.rend());
  groups.insert(reversed);
  groups.erase(group);
  std::vector<std::vector<int64_t>> list(groups.begin(), groups.end());
  return random.pick(list);
}

/// One change of one rank's sequence, in words.
static std::string mutate(RankSequences &ranks, Random &random) {
  int64_t rank = random.below(ranks.size());
  Sequence &sequence = ranks[rank];
  int64_t at = random.below(sequence.size());
  Communication &command = sequence[at];
  std::string where =
      "rank " + std::to_string(rank) + ", command " + std::to_string(at);
  switch (random.below(8)) {
  case 0:
    command.id = random.chance(50)
                     ? command.id + 1000
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
    sequence.erase(sequence.begin() + at);
    return where + ": missing";
  case 6:
    sequence.insert(sequence.begin() + random.below(sequence.size() + 1),
                    Communication(command));
    return where + ": twice";
  default: {
    Communication moved = command;
    sequence.erase(sequence.begin() + at);
    int64_t to = random.below(sequence.size() + 1);
    sequence.insert(sequence.begin() + to, moved);
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
  return !ends(after);
}

std::string polyrank::test::checkMutations(ModuleOp module, int64_t count,
                                           Random &random,
                                           MutationCounts &counts) {
  std::vector<RankSequences> segments;
  for (auto function : module.getOps<func::FuncOp>())
    for (const SegmentCommands &commands : getSegments(function))
      if (!commands.empty())
        segments.push_back(*getRankSequences(commands));
  for (int64_t i = 0; i < count && !segments.empty(); ++i) {
    const RankSequences &before = segments[random.below(segments.size())];
    if (findCommunicationError(before))
      return "the program itself is rejected";
    RankSequences after = before;
    std::string what = mutate(after, random);
    bool expected = mustBeRejected(before, after);
    auto error = findCommunicationError(after);
    if (error.has_value() != expected)
      return what + (expected ? " is accepted" : " is rejected: " + *error);
    ++(expected ? counts.rejected : counts.equivalent);
  }
  return "";
}

/// The ops in front of which `op` may stand in its block.
static SmallVector<Operation *> getPlaces(Operation *op) {
  Block *block = op->getBlock();
  SmallVector<Operation *> places;
  Operation *first = nullptr; // behind the last of those that it uses
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp();
        producer && producer->getBlock() == block &&
        (!first || first->isBeforeInBlock(producer)))
      first = producer;
  for (Operation &place :
       llvm::make_range(first ? std::next(first->getIterator()) : block->begin(),
                        block->end())) {
    if (&place != op && op->getNextNode() != &place)
      places.push_back(&place);
    if (llvm::is_contained(op->getUsers(), &place) ||
        llvm::any_of(op->getUsers(), [&](Operation *user) {
          return place.isAncestor(user);
        }))
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
