// The product of all ranks, by the definition: slow but simple.

#include "test/runtime/progress/FullProduct.h"

#include <algorithm>
#include <map>
#include <set>

using namespace polyrank;
using namespace polyrank::test;
using progress::Command;

RankSequences polyrank::test::expand(const progress::RankPrograms &ranks) {
  RankSequences sequences(ranks.mesh.getNumRanks());
  for (int64_t rank = 0; rank < ranks.mesh.getNumRanks(); ++rank) {
    int64_t index = 0;
    for (int32_t axis : ranks.classAxes)
      index = index * ranks.mesh.getAxes()[axis].size +
              ranks.mesh.getCoordinate(rank, axis);
    for (const Command &command : ranks.programs[ranks.programOf[index]]) {
      Communication each;
      each.action = command.action;
      each.started = command.started;
      if (!each.isWait()) {
        const progress::Movement &movement = ranks.movements[command.movement];
        each.id = movement.id;
        each.kind = movement.kind;
        each.bytes = movement.bytes;
        each.command = movement.place;
        each.transfers = movement.transfers;
        each.queue = command.queue;
        each.microbatch = command.microbatch;
        each.group = ranks.mesh.getRanks(rank, ranks.groups[command.group]);
        each.channel = ranks.groups[command.group].channel;
      }
      sequences[rank].push_back(std::move(each));
    }
  }
  return sequences;
}

progress::RankPrograms
polyrank::test::toPrograms(const RankSequences &sequences,
                           progress::Limits limits) {
  int64_t count = sequences.size();
  progress::RankPrograms ranks;
  ranks.limits = limits;
  ranks.mesh = progress::Mesh({{"rank", count}});
  ranks.classAxes = {0};
  ranks.programOf.clear();
  for (int64_t rank = 0; rank < count; ++rank) {
    ranks.programOf.push_back(rank);
    progress::Program program;
    for (const Communication &each : sequences[rank]) {
      Command command;
      command.action = each.action;
      command.started = each.started;
      command.queue = each.queue;
      command.microbatch = each.microbatch;
      if (!each.isWait()) {
        command.movement = ranks.movements.size();
        ranks.movements.push_back(
            {each.id, each.kind, each.bytes, each.command, each.transfers});
        progress::Group group{{{0, 1, count}}, each.group, each.channel};
        // An empty list would mean all programs.
        if (group.members.empty())
          group.members = {-1};
        auto known = std::find(ranks.groups.begin(), ranks.groups.end(), group);
        command.group = known - ranks.groups.begin();
        if (known == ranks.groups.end())
          ranks.groups.push_back(group);
      }
      program.push_back(command);
    }
    ranks.programs.push_back(std::move(program));
  }
  return ranks;
}

namespace {

class Product {
public:
  Product(const RankSequences &ranks, const progress::Limits &limits)
      : ranks(ranks), limits(limits), states(ranks.size()) {}

  std::optional<std::string> run();

private:
  struct State {
    size_t next = 0;
    bool isStarted = false;
    std::set<size_t> started; // commands
  };
  /// An operation of a group.
  struct Key {
    std::vector<int64_t> group;
    int64_t channel, number;

    auto operator<=>(const Key &) const = default;
  };

  std::optional<std::string> findMalformed() const;
  Key keyOf(int64_t rank, size_t command) const;
  std::optional<size_t> find(int64_t rank, const Key &key) const;
  bool isDone(int64_t rank, size_t command) const {
    return done.count(keyOf(rank, command)) > 0;
  }
  int64_t places(const Communication &each) const {
    return std::max<int64_t>(
        1, (each.transfers + limits.transfersOfAnOperation - 1) /
               limits.transfersOfAnOperation);
  }
  bool mayStart(int64_t rank, size_t command) const;
  bool isAloneTooLarge(const Communication &each) const {
    return places(each) > limits.operationsOfAGroup ||
           each.transfers > limits.transfers;
  }
  bool happens(const Key &key) const;
  bool disagree(const Key &key) const;
  bool advance(int64_t rank);

  const RankSequences &ranks;
  const progress::Limits &limits;
  std::vector<State> states;
  std::set<Key> done;
};

} // namespace

std::optional<std::string> Product::findMalformed() const {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::set<int64_t> inFlight;
    for (size_t i = 0; i < ranks[rank].size(); ++i) {
      const Communication &each = ranks[rank][i];
      if (each.isWait()) {
        if (inFlight.erase(each.started) == 0)
          return "a wait without a start";
        continue;
      }
      if (each.action == Command::Action::Start)
        inFlight.insert(i);
      std::set<int64_t> members(each.group.begin(), each.group.end());
      if (members.size() != each.group.size() || !members.count(rank) ||
          *members.begin() < 0 ||
          *members.rbegin() >= static_cast<int64_t>(ranks.size()))
        return "a group that is none";
    }
    if (!inFlight.empty())
      return "a start without a wait";
  }
  return std::nullopt;
}

Product::Key Product::keyOf(int64_t rank, size_t command) const {
  const auto &sequence = ranks[rank];
  int64_t number = 0;
  for (size_t i = 0; i < command; ++i)
    number += !sequence[i].isWait() && sequence[i].isOfGroup(sequence[command]);
  return {sequence[command].group, sequence[command].channel, number};
}

std::optional<size_t> Product::find(int64_t rank, const Key &key) const {
  int64_t number = 0;
  for (size_t i = 0; i < ranks[rank].size(); ++i)
    if (const Communication &each = ranks[rank][i];
        !each.isWait() && each.group == key.group &&
        each.channel == key.channel && number++ == key.number)
      return i;
  return std::nullopt;
}

/// True if the group's ring has a slot for each part of the command, and the
/// rank can publish its transfers in addition to those still published.
bool Product::mayStart(int64_t rank, size_t command) const {
  const auto &sequence = ranks[rank];
  const Communication &mine = sequence[command];
  if (mine.transfers == 0) // it has memory of its own
    return true;
  int64_t since = mine.transfers, sinceInGroup = places(mine);
  for (size_t i = command; i-- > 0;) {
    const Communication &older = sequence[i];
    if (older.isWait() || older.transfers == 0)
      continue;
    since += older.transfers;
    if (since > limits.transfers && !isDone(rank, i))
      return false;
    if (!older.isOfGroup(mine))
      continue;
    sinceInGroup += places(older);
    // Its first slot is reused.
    if (sinceInGroup > limits.operationsOfAGroup && !isDone(rank, i))
      return false;
  }
  return true;
}

/// True if all members have started the operation, and none is before it in a
/// queue.
bool Product::happens(const Key &key) const {
  for (int64_t rank : key.group) {
    std::optional<size_t> command = find(rank, key);
    if (!command || !states[rank].started.count(*command))
      return false;
    const Communication &mine = ranks[rank][*command];
    for (size_t before : states[rank].started) {
      const Communication &older = ranks[rank][before];
      bool isSameQueue =
          older.queue == mine.queue &&
          (mine.queue != Command::ownQueue || older.isOfGroup(mine));
      if (before < *command && isSameQueue && !isDone(rank, before))
        return false;
    }
  }
  return true;
}

bool Product::disagree(const Key &key) const {
  const Communication *first = nullptr;
  for (int64_t rank : key.group) {
    std::optional<size_t> command = find(rank, key);
    if (!command || !states[rank].started.count(*command))
      continue;
    const Communication &mine = ranks[rank][*command];
    if (!first)
      first = &mine;
    if (mine.id != first->id || mine.kind != first->kind ||
        mine.bytes != first->bytes || mine.microbatch != first->microbatch)
      return true;
  }
  return false;
}

bool Product::advance(int64_t rank) {
  State &state = states[rank];
  if (state.next == ranks[rank].size())
    return false;
  const Communication &command = ranks[rank][state.next];
  if (command.isWait()) {
    if (!isDone(rank, command.started))
      return false;
    ++state.next;
    return true;
  }
  if (!state.isStarted) {
    if (!mayStart(rank, state.next))
      return false;
    state.isStarted = true;
    state.started.insert(state.next);
    return true;
  }
  bool waits =
      command.action == Command::Action::Run || isAloneTooLarge(command);
  if (waits && !isDone(rank, state.next))
    return false;
  state.isStarted = false;
  ++state.next;
  return true;
}

std::optional<std::string> Product::run() {
  if (auto error = findMalformed())
    return error;
  std::set<Key> keys;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < ranks[rank].size(); ++i)
      if (!ranks[rank][i].isWait())
        keys.insert(keyOf(rank, i));
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      while (advance(rank))
        moved = true;
    for (const Key &key : keys) {
      if (done.count(key))
        continue;
      if (disagree(key))
        return "members disagree";
      if (happens(key)) {
        done.insert(key);
        moved = true;
      }
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (states[rank].next < ranks[rank].size())
      return "rank " + std::to_string(rank) + " waits without end";
  return std::nullopt;
}

std::optional<std::string>
polyrank::test::findCommunicationError(const RankSequences &ranks,
                                       const progress::Limits &limits) {
  return Product(ranks, limits).run();
}
