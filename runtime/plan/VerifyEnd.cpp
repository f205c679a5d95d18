// Proves that the programs of a plan do not deadlock: follows them together
// through one step, for any relative speeds.
//
// The compiler has proven the same of its own program (runtime/progress), with
// an order of all events and a shortest counterexample at the user's ops; for
// that it unrolls the step of every rank. A plan is a file that anybody may
// have written, so its reader proves it again, in memory that grows with the
// file and not with the length of a step: it keeps each segment once, however
// often the segment runs. Both take what can be in flight from
// progress::Limits.
//
// One rank of each program represents all of its ranks, which do the same with
// the corresponding ranks of the other programs. Collectives among ranks of one
// program run in the same order on all of them, so only communication between
// programs matters: sends, receives, and collectives over the axes by which
// programs differ. A program waits only for what others have done, so there is
// one furthest point that all reach, in whatever order they are followed.

#include "runtime/plan/ProgramGroups.h"
#include "runtime/plan/Verifier.h"
#include "runtime/progress/RankPrograms.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace polyrank::runtime {

using namespace plan;

namespace {

/// A command that communicates with another program.
struct Event {
  uint32_t command = 0;
  const Send *send = nullptr;
  const Receive *receive = nullptr;
  const Collective *collective = nullptr; // the collective that is started
  uint32_t ends = 0;                      // request of a wait
  uint32_t queue = 0;                     // of a collective or a transfer
};

/// The collectives of one group of ranks of several programs.
struct GroupQueue {
  std::vector<uint32_t> programs;
  std::map<uint32_t, uint64_t> started; // operations started, by program
  /// For each operation the collective of the program that started it first,
  /// and that program.
  std::vector<std::pair<const Collective *, uint32_t>> first;
};

/// Values of one id from one program to another.
struct TransferQueue {
  uint64_t sent = 0, received = 0;
  uint32_t slots = 1;
};

bool isAlike(const Collective &a, const Collective &b) {
  if (a.kind() != b.kind() || a.reduction() != b.reduction() ||
      a.dtype() != b.dtype() || a.id() != b.id() ||
      a.transfers()->size() != b.transfers()->size())
    return false;
  auto sourcesOf = [](const Collective &each) {
    return each.permutation()
               ? std::vector<int32_t>(each.permutation()->begin(),
                                      each.permutation()->end())
               : std::vector<int32_t>();
  };
  if (sourcesOf(a) != sourcesOf(b))
    return false;
  for (uint32_t i = 0; i < a.transfers()->size(); ++i) {
    const Transfer &x = *a.transfers()->Get(i), &y = *b.transfers()->Get(i);
    if (x.outer() != y.outer() || x.x() != y.x() || x.middle() != y.middle() ||
        x.y() != y.y() || x.inner() != y.inner() ||
        x.split_first() != y.split_first() || x.low() != y.low() ||
        x.high() != y.high())
      return false;
  }
  return true;
}

/// The most operations of a group in flight (docs/time.md).
constexpr uint64_t mostInFlight = progress::Limits().operationsOfAGroup;

/// The position of one program in a step.
struct Walker {
  std::vector<std::vector<Event>> events; // by segment
  uint32_t action = 0;
  size_t next = 0;
  /// By request: queue and number of the operation in flight.
  std::map<uint32_t, std::pair<uint32_t, uint64_t>> flights;
  /// True once the current collective, which has no request, has been started.
  bool isStarted = false;
};

} // namespace

bool PlanVerifier::verifyEnd() {
  uint32_t count = plan.programs()->size();
  if (count == 1)
    return true;
  Mesh mesh(plan);
  ProgramGroups groups(plan, mesh);
  std::vector<GroupQueue> queues;
  std::vector<TransferQueue> transfers;
  std::map<ProgramGroups::Key, uint32_t> queueNumbers;
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint32_t> transferNumbers;
  std::vector<Walker> walkers(count);

  uint64_t total = 0;
  for (uint32_t number = 0; number < count; ++number) {
    const Program &each = *plan.programs()->Get(number);
    auto transferOf = [&](uint64_t id, uint32_t from, uint32_t to,
                          uint32_t slots) {
      auto [at, isNew] =
          transferNumbers.insert({{id, from, to}, uint32_t(transfers.size())});
      if (isNew)
        transfers.push_back({0, 0, slots});
      return at->second;
    };
    for (const Segment *segment : *each.segments()) {
      auto &events = walkers[number].events.emplace_back();
      std::map<uint32_t, uint32_t> requests; // queues of started collectives
      uint32_t commands = segment->commands() ? segment->commands()->size() : 0;
      for (uint32_t c = 0; c < commands; ++c) {
        const Command &command = *segment->commands()->Get(c);
        Event event;
        event.command = c;
        if ((event.send = command.body_as_Send())) {
          uint32_t other =
              groups.memberOf(number, event.send->group(), event.send->to());
          event.queue =
              transferOf(event.send->id(), number, other, event.send->slots());
        } else if ((event.receive = command.body_as_Receive())) {
          uint32_t other = groups.memberOf(number, event.receive->group(),
                                           event.receive->from());
          event.queue = transferOf(event.receive->id(), other, number,
                                   event.receive->slots());
        } else if ((event.collective = command.body_as_Collective())) {
          if (!groups.spans(number, event.collective->group()))
            continue;
          auto [at, isNew] = queueNumbers.insert(
              {groups.keyOf(number, event.collective->group()),
               uint32_t(queues.size())});
          if (isNew)
            queues.push_back(
                {groups.membersOf(number, event.collective->group()), {}, {}});
          event.queue = at->second;
          if (event.collective->request())
            requests[event.collective->request()] = event.queue;
        } else if (const Wait *wait = command.body_as_Wait();
                   wait && requests.contains(wait->request())) {
          event.ends = wait->request();
        } else {
          continue;
        }
        events.push_back(event);
      }
    }
    for (const Action *action : *each.schedule())
      total += walkers[number].events[action->segment()].size();
  }
  constexpr uint64_t most = uint64_t(1) << 28;
  if (total > most)
    return fail("its programs meet {} times in a step; at most {} are possible",
                total, most);

  auto placeOf = [&](uint32_t number) {
    return describePlaces(mesh, plan.programs()->Get(number)->at());
  };
  // Returns true if all members have started operation `number`.
  auto isOver = [&](const GroupQueue &queue, uint64_t number) {
    return std::all_of(
        queue.programs.begin(), queue.programs.end(), [&](uint32_t each) {
          auto at = queue.started.find(each);
          return at != queue.started.end() && at->second > number;
        });
  };
  enum class Move { Goes, Stands, Fails };
  auto advance = [&](uint32_t number, Walker &walker, const Event &event) {
    if (event.send) {
      TransferQueue &queue = transfers[event.queue];
      if (queue.sent - queue.received >= queue.slots)
        return Move::Stands;
      ++queue.sent;
      return Move::Goes;
    }
    if (event.receive) {
      TransferQueue &queue = transfers[event.queue];
      if (queue.sent == queue.received)
        return Move::Stands;
      ++queue.received;
      return Move::Goes;
    }
    if (event.ends) {
      auto [queue, flight] = walker.flights.at(event.ends);
      return isOver(queues[queue], flight) ? Move::Goes : Move::Stands;
    }
    GroupQueue &queue = queues[event.queue];
    uint64_t &started = queue.started[number];
    if (!walker.isStarted) {
      if (started >= mostInFlight && !isOver(queue, started - mostInFlight))
        return Move::Stands;
      if (queue.first.size() == started)
        queue.first.push_back({event.collective, number});
      auto [other, whose] = queue.first[started];
      if (!isAlike(*other, *event.collective)) {
        fail("at {} the next collective over {} is of value {} ({}), and at {} "
             "of value {} ({})",
             placeOf(whose), groups.describe(number, event.collective->group()),
             other->id(), EnumNameCollectiveKind(other->kind()),
             placeOf(number), event.collective->id(),
             EnumNameCollectiveKind(event.collective->kind()));
        return Move::Fails;
      }
      ++started;
      if (event.collective->request()) {
        walker.flights[event.collective->request()] = {event.queue,
                                                       started - 1};
        return Move::Goes;
      }
      walker.isStarted = true;
    }
    if (!isOver(queue, started - 1))
      return Move::Stands;
    walker.isStarted = false;
    return Move::Goes;
  };

  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (uint32_t number = 0; number < count; ++number) {
      Walker &walker = walkers[number];
      const auto &schedule = *plan.programs()->Get(number)->schedule();
      while (walker.action < schedule.size()) {
        const auto &events =
            walker.events[schedule.Get(walker.action)->segment()];
        if (walker.next == events.size()) {
          ++walker.action;
          walker.next = 0;
          hasMoved = true;
          continue;
        }
        bool wasStarted = walker.isStarted;
        Move moved = advance(number, walker, events[walker.next]);
        if (moved == Move::Fails)
          return false;
        hasMoved |= walker.isStarted != wasStarted;
        if (moved == Move::Stands)
          break;
        hasMoved = true;
        ++walker.next;
      }
    }
  }
  std::string standing;
  for (uint32_t number = 0; number < count; ++number) {
    const Walker &walker = walkers[number];
    const Program &each = *plan.programs()->Get(number);
    if (walker.action == each.schedule()->size())
      continue;
    const Action &action = *each.schedule()->Get(walker.action);
    standing += fmt::format(
        "{}at {} in {}, microbatch {}", standing.empty() ? "" : "; ",
        placeOf(number),
        describe(*each.segments()->Get(action.segment()),
                 walker.events[action.segment()][walker.next].command),
        action.microbatch());
  }
  return standing.empty() ||
         fail("ranks wait for each other without end: {}", standing);
}

} // namespace polyrank::runtime
