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
#include <optional>
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

/// Follows the programs of a plan together through one step.
class PlanVerifier::StepWalk {
public:
  explicit StepWalk(const Plan &plan)
      : plan(plan), mesh(plan), groups(plan, mesh),
        walkers(plan.programs()->size()) {}

  /// What keeps the programs from the end of the step; empty if they reach it.
  std::string findFault();

private:
  enum class Move { Goes, Stands, Fails };

  /// Collects what each program does with others, and returns how often they
  /// meet in a step.
  uint64_t collectEvents();
  /// The event of a command; nullopt if it concerns this program alone.
  /// `requests` are the queues of the collectives that the segment has started.
  std::optional<Event> eventOf(uint32_t number, const Command &command,
                               std::map<uint32_t, uint32_t> &requests);
  uint32_t transferOf(uint64_t id, uint32_t from, uint32_t to, uint32_t slots);
  uint32_t queueOf(uint32_t number, uint32_t group);
  /// Returns true if all members have started operation `number`.
  bool isOver(const GroupQueue &queue, uint64_t number) const;
  Move advance(uint32_t number, Walker &walker, const Event &event);
  Move advanceTransfer(const Event &event);
  Move advanceCollective(uint32_t number, Walker &walker, const Event &event);
  /// Lets every program go as far as it can.
  Move walk();
  std::string placeOf(uint32_t number) const {
    return describePlaces(mesh, plan.programs()->Get(number)->at());
  }
  std::string describeStanding() const;

  const Plan &plan;
  Mesh mesh;
  ProgramGroups groups;
  std::vector<GroupQueue> queues;
  std::vector<TransferQueue> transfers;
  std::map<ProgramGroups::Key, uint32_t> queueNumbers;
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint32_t> transferNumbers;
  std::vector<Walker> walkers;
  std::string fault;
};

uint32_t PlanVerifier::StepWalk::transferOf(uint64_t id, uint32_t from,
                                            uint32_t to, uint32_t slots) {
  auto [at, isNew] =
      transferNumbers.insert({{id, from, to}, uint32_t(transfers.size())});
  if (isNew)
    transfers.push_back({0, 0, slots});
  return at->second;
}

uint32_t PlanVerifier::StepWalk::queueOf(uint32_t number, uint32_t group) {
  auto [at, isNew] = queueNumbers.insert(
      {groups.keyOf(number, group), uint32_t(queues.size())});
  if (isNew)
    queues.push_back({groups.membersOf(number, group), {}, {}});
  return at->second;
}

std::optional<Event>
PlanVerifier::StepWalk::eventOf(uint32_t number, const Command &command,
                                std::map<uint32_t, uint32_t> &requests) {
  Event event;
  if ((event.send = command.body_as_Send())) {
    uint32_t other =
        groups.memberOf(number, event.send->group(), event.send->to());
    event.queue =
        transferOf(event.send->id(), number, other, event.send->slots());
    return event;
  }
  if ((event.receive = command.body_as_Receive())) {
    uint32_t other =
        groups.memberOf(number, event.receive->group(), event.receive->from());
    event.queue =
        transferOf(event.receive->id(), other, number, event.receive->slots());
    return event;
  }
  if ((event.collective = command.body_as_Collective())) {
    if (!groups.spans(number, event.collective->group()))
      return std::nullopt;
    event.queue = queueOf(number, event.collective->group());
    if (event.collective->request())
      requests[event.collective->request()] = event.queue;
    return event;
  }
  const Wait *wait = command.body_as_Wait();
  if (!wait || !requests.contains(wait->request()))
    return std::nullopt;
  event.ends = wait->request();
  return event;
}

uint64_t PlanVerifier::StepWalk::collectEvents() {
  uint64_t total = 0;
  for (uint32_t number = 0; number < walkers.size(); ++number) {
    const Program &each = *plan.programs()->Get(number);
    for (const Segment *segment : *each.segments()) {
      auto &events = walkers[number].events.emplace_back();
      std::map<uint32_t, uint32_t> requests;
      uint32_t commands = segment->commands() ? segment->commands()->size() : 0;
      for (uint32_t c = 0; c < commands; ++c)
        if (auto event =
                eventOf(number, *segment->commands()->Get(c), requests)) {
          event->command = c;
          events.push_back(*event);
        }
    }
    for (const Action *action : *each.schedule())
      total += walkers[number].events[action->segment()].size();
  }
  return total;
}

bool PlanVerifier::StepWalk::isOver(const GroupQueue &queue,
                                    uint64_t number) const {
  return std::all_of(queue.programs.begin(), queue.programs.end(),
                     [&](uint32_t each) {
                       auto at = queue.started.find(each);
                       return at != queue.started.end() && at->second > number;
                     });
}

PlanVerifier::StepWalk::Move
PlanVerifier::StepWalk::advanceTransfer(const Event &event) {
  TransferQueue &queue = transfers[event.queue];
  if (event.send) {
    if (queue.sent - queue.received >= queue.slots)
      return Move::Stands;
    ++queue.sent;
    return Move::Goes;
  }
  if (queue.sent == queue.received)
    return Move::Stands;
  ++queue.received;
  return Move::Goes;
}

PlanVerifier::StepWalk::Move
PlanVerifier::StepWalk::advanceCollective(uint32_t number, Walker &walker,
                                          const Event &event) {
  GroupQueue &queue = queues[event.queue];
  uint64_t &started = queue.started[number];
  if (!walker.isStarted) {
    if (started >= mostInFlight && !isOver(queue, started - mostInFlight))
      return Move::Stands;
    if (queue.first.size() == started)
      queue.first.push_back({event.collective, number});
    auto [other, whose] = queue.first[started];
    if (!isAlike(*other, *event.collective)) {
      fault = fmt::format(
          "at {} the next collective over {} is of value {} ({}), and at {} "
          "of value {} ({})",
          placeOf(whose), groups.describe(number, event.collective->group()),
          other->id(), EnumNameCollectiveKind(other->kind()), placeOf(number),
          event.collective->id(),
          EnumNameCollectiveKind(event.collective->kind()));
      return Move::Fails;
    }
    ++started;
    if (event.collective->request()) {
      walker.flights[event.collective->request()] = {event.queue, started - 1};
      return Move::Goes;
    }
    walker.isStarted = true;
  }
  if (!isOver(queue, started - 1))
    return Move::Stands;
  walker.isStarted = false;
  return Move::Goes;
}

PlanVerifier::StepWalk::Move
PlanVerifier::StepWalk::advance(uint32_t number, Walker &walker,
                                const Event &event) {
  if (event.send || event.receive)
    return advanceTransfer(event);
  if (event.ends) {
    auto [queue, flight] = walker.flights.at(event.ends);
    return isOver(queues[queue], flight) ? Move::Goes : Move::Stands;
  }
  return advanceCollective(number, walker, event);
}

PlanVerifier::StepWalk::Move PlanVerifier::StepWalk::walk() {
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (uint32_t number = 0; number < walkers.size(); ++number) {
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
          return moved;
        hasMoved |= walker.isStarted != wasStarted;
        if (moved == Move::Stands)
          break;
        hasMoved = true;
        ++walker.next;
      }
    }
  }
  return Move::Stands;
}

std::string PlanVerifier::StepWalk::describeStanding() const {
  std::string standing;
  for (uint32_t number = 0; number < walkers.size(); ++number) {
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
  return standing;
}

std::string PlanVerifier::StepWalk::findFault() {
  constexpr uint64_t most = uint64_t(1) << 28;
  if (uint64_t total = collectEvents(); total > most)
    return fmt::format(
        "its programs meet {} times in a step; at most {} are possible", total,
        most);
  if (walk() == Move::Fails)
    return fault;
  std::string standing = describeStanding();
  return standing.empty()
             ? ""
             : "ranks wait for each other without end: " + standing;
}

bool PlanVerifier::verifyEnd() {
  if (plan.programs()->size() == 1)
    return true;
  std::string fault = StepWalk(plan).findFault();
  return fault.empty() || fail("{}", fault);
}

} // namespace polyrank::runtime
