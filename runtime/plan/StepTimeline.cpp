// Simulates the schedules of a plan's programs on the clocks of their queues.
//
// One rank of each program represents all of its ranks (ProgramGroups.h). A
// program is followed until it waits for what another one has not done yet; a
// verified plan has no deadlock, so none waits forever.

#include "runtime/plan/StepTimeline.h"

#include "runtime/plan/Collectives.h"
#include "runtime/plan/Enums.h"
#include "runtime/plan/ProgramGroups.h"
#include "runtime/plan/QueueNames.h"
#include "runtime/plan/StepBound.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace polyrank::runtime {
namespace {

/// The shared state of programs that communicate.
struct Meetings {
  /// The values of one id from one program to another: when each was sent and
  /// arrived, and when its slot was free again.
  struct Channel {
    std::vector<QueueClock::Interval> sent;
    std::vector<int64_t> freed;
  };
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, Channel> channels;
  /// When a link from one program to another is free.
  std::map<std::tuple<ProgramGroups::Key, uint32_t, uint32_t>, int64_t> links;
  /// The collectives of a group of several programs, in order.
  struct Group {
    struct Operation {
      size_t started = 0;
      int64_t allStarted = 0; // so far
      bool isKnown = false;   // `time` is known
      QueueClock::Interval time;
    };
    std::vector<Operation> operations;
    std::map<uint32_t, size_t> next; // by program
    int64_t freeFrom = 0;
  };
  std::map<ProgramGroups::Key, Group> groups;
};

class Follower {
public:
  Follower(const LoadedPlan &plan, uint32_t number, const Mesh &mesh,
           const ProgramGroups &groups, const ProgramTimes &times,
           Meetings &meetings)
      : program(plan.program(number)), number(number), mesh(mesh),
        groups(groups), times(times), meetings(meetings) {
    timeline.place = describePlaces(mesh, program.at());
    timeline.queues.push_back("compute");
    for (std::string &name : communicationQueueNames(program, mesh))
      timeline.queues.push_back(std::move(name));
    work.resize(timeline.queues.size());
  }

  /// Follows the program as far as possible. Returns whether it made progress.
  bool follow() {
    bool hasMoved = false;
    while (action < program.schedule()->size()) {
      uint32_t segmentNumber = program.schedule()->Get(action)->segment();
      const plan::Segment &segment = *program.segments()->Get(segmentNumber);
      uint32_t count = segment.commands() ? segment.commands()->size() : 0;
      if (command == 0 && !isBegun)
        begin = clock.now(), isBegun = true;
      for (; command < count; ++command, hasMoved = true)
        if (!follow(*segment.commands()->Get(command),
                    times[segmentNumber][command]))
          return hasMoved;
      timeline.segments.push_back(
          {segment.name()->str(),
           program.schedule()->Get(action)->microbatch(),
           {begin, clock.now()}});
      ++action;
      command = 0, isBegun = false, hasMoved = true;
    }
    return hasMoved;
  }

  StepTimeline finish() {
    timeline.makespan = clock.now();
    timeline.computation = work[0];
    for (size_t queue = 1; queue < work.size(); ++queue)
      timeline.communication += work[queue];
    timeline.lowerBound = *std::max_element(work.begin(), work.end());
    timeline.busy = work;
    for (auto &[key, line] : lines)
      timeline.overlap.push_back(line);
    std::stable_sort(timeline.overlap.begin(), timeline.overlap.end(),
                     [](const OverlapLine &a, const OverlapLine &b) {
                       return a.time > b.time;
                     });
    return std::move(timeline);
  }

private:
  struct InFlight {
    QueueClock::Interval time; // if the group is of this program alone
    OverlapLine *line = nullptr;
    size_t command = 0; // in timeline.commands
    Meetings::Group *group = nullptr;
    size_t operation = 0; // in the group
  };

  void add(uint32_t queue, QueueClock::Interval time,
           const plan::Command &source, bool isWork = true) {
    timeline.commands.push_back({queue, time, &source, action, command});
    if (isWork)
      work[queue] += time.end - time.start;
  }

  /// Follows one command. Returns whether it could run.
  bool follow(const plan::Command &source, int64_t duration) {
    if (const plan::Wait *wait = source.body_as_Wait()) {
      auto flight = inFlight.find(wait->request());
      if (!await(flight->second))
        return false;
      inFlight.erase(flight);
      return true;
    }
    if (const plan::Send *send = source.body_as_Send())
      return follow(source, *send, duration);
    if (const plan::Receive *receive = source.body_as_Receive())
      return follow(source, *receive);
    const plan::Collective *collective = source.body_as_Collective();
    if (collective)
      return follow(source, *collective, duration);
    add(0, clock.compute(duration), source);
    return true;
  }

  bool follow(const plan::Command &source, const plan::Collective &collective,
              int64_t duration) {
    if (isStarted) // it waits for other programs
      return finishNow();
    uint32_t queue = rowOf(source);
    OverlapLine &line = lineOf(collective, queue);
    ++line.count;
    line.started += collective.request() != 0;
    line.time += duration;
    line.bytes += bytesOf(collective.why());
    InFlight flight{{}, &line, timeline.commands.size(), nullptr, 0};
    if (groups.spans(number, collective.group())) {
      flight.group = &meetings.groups[groups.keyOf(number, collective.group())];
      flight.operation = start(*flight.group, collective, duration);
      add(queue, {clock.now(), clock.now()}, source);
      work[queue] += duration;
    } else {
      flight.time = clock.start(source.queue(), duration);
      add(queue, flight.time, source);
    }
    if (collective.request()) {
      inFlight[collective.request()] = flight;
      return true;
    }
    current = flight;
    isStarted = true;
    return finishNow();
  }

  bool finishNow() {
    isStarted = !await(current);
    return !isStarted;
  }

  /// Starts this program's next operation of the group, and returns its number.
  size_t start(Meetings::Group &group, const plan::Collective &collective,
               int64_t duration) {
    size_t operation = group.next[number]++;
    if (group.operations.size() <= operation)
      group.operations.resize(operation + 1);
    Meetings::Group::Operation &one = group.operations[operation];
    one.allStarted = std::max(one.allStarted, clock.now());
    if (++one.started == groups.membersOf(number, collective.group()).size()) {
      one.time.start = std::max(group.freeFrom, one.allStarted);
      group.freeFrom = one.time.end = one.time.start + duration;
      one.isKnown = true;
    }
    return operation;
  }

  /// Time that the rank stalls is not overlapped. If earlier collectives of the
  /// group run before this one, the rank stalls for these, too.
  bool await(InFlight &one) {
    if (one.group) {
      const auto &operation = one.group->operations[one.operation];
      if (!operation.isKnown)
        return false;
      one.time = operation.time;
      timeline.commands[one.command].time = one.time;
    }
    int64_t stood = clock.wait(one.time);
    int64_t duration = one.time.end - one.time.start;
    timeline.commands[one.command].stood = stood;
    one.line->hidden += duration - std::min(stood, duration);
    return true;
  }

  Meetings::Channel &channelOf(uint64_t id, uint32_t from, uint32_t to) {
    return meetings.channels[{id, from, to}];
  }

  /// The index of a communication queue in the timeline.
  static uint32_t rowOf(const plan::Command &source) {
    return 1 + source.queue() - firstCommunicationQueue;
  }

  /// Returns the line of the sends or receives of a link.
  OverlapLine &lineOf(const plan::Command &source, const char *kind,
                      int kindNumber) {
    OverlapLine &line = lines[{kindNumber, rowOf(source), 0}];
    line.kind = kind;
    line.axes = timeline.queues[rowOf(source)];
    return line;
  }

  bool follow(const plan::Command &source, const plan::Send &send,
              int64_t duration) {
    uint32_t other = groups.memberOf(number, send.group(), send.to());
    Meetings::Channel &channel = channelOf(send.id(), number, other);
    size_t before = channel.sent.size();
    int64_t stood = 0;
    if (before >= send.slots()) {
      if (channel.freed.size() <= before - send.slots())
        return false;
      int64_t freed = channel.freed[before - send.slots()];
      stood = clock.wait({freed, freed});
    }
    QueueClock::Interval time{clock.now(), clock.now()};
    if (duration > 0) {
      int64_t &free =
          meetings.links[{groups.keyOf(number, send.group()), number, other}];
      time.start = std::max(free, clock.now());
      free = time.end = time.start + duration;
    }
    channel.sent.push_back({clock.now(), time.end});
    OverlapLine &line = lineOf(source, "send", sendKind);
    ++line.count;
    line.bytes += send.input()->size();
    line.time += duration;
    line.hidden += duration;
    add(rowOf(source), time, source);
    timeline.commands.back().stood = stood;
    return true;
  }

  bool follow(const plan::Command &source, const plan::Receive &receive) {
    uint32_t other = groups.memberOf(number, receive.group(), receive.from());
    Meetings::Channel &channel = channelOf(receive.id(), other, number);
    if (channel.sent.size() == channel.freed.size())
      return false;
    QueueClock::Interval time = channel.sent[channel.freed.size()];
    int64_t stood = clock.wait(time);
    channel.freed.push_back(clock.now());
    OverlapLine &line = lineOf(source, "receive", receiveKind);
    ++line.count;
    int64_t duration = time.end - time.start;
    line.time += duration;
    line.hidden += duration - std::min(stood, duration);
    // The transfer counts as the sender's work.
    add(rowOf(source), time, source, /*isWork=*/false);
    timeline.commands.back().stood = stood;
    return true;
  }

  uint64_t bytesOf(uint32_t why) const {
    return program.reasons() && why < program.reasons()->size()
               ? program.reasons()->Get(why)->bytes()
               : 0;
  }

  OverlapLine &lineOf(const plan::Collective &collective, uint32_t row) {
    auto [at, isNew] =
        lines.try_emplace({int(collective.kind()), row, collective.group()});
    if (isNew) {
      at->second.kind = nameOf(kindOf(collective.kind()));
      at->second.axes =
          mesh.describe(program.groups()->Get(collective.group())->axes());
    }
    return at->second;
  }

  static constexpr int sendKind = numCollectiveKinds,
                       receiveKind = numCollectiveKinds + 1;

  const plan::Program &program;
  uint32_t number;
  const Mesh &mesh;
  const ProgramGroups &groups;
  const ProgramTimes &times;
  Meetings &meetings;
  uint32_t action = 0, command = 0; // the position in the schedule
  int64_t begin = 0;                // of the current action
  bool isBegun = false;
  bool isStarted = false; // the current collective, without a request
  InFlight current;
  QueueClock clock;
  StepTimeline timeline;
  std::vector<int64_t> work;             // by queue
  std::map<uint32_t, InFlight> inFlight; // by request
  /// By kind, queue, and of collectives the group.
  std::map<std::tuple<int, uint32_t, uint32_t>, OverlapLine> lines;
};

} // namespace

PlanTimeline planTimelineOf(const LoadedPlan &plan) {
  return planTimelineOf(plan, plannedTimesOf(plan));
}

PlanTimeline planTimelineOf(const LoadedPlan &plan, const StepTimes &times) {
  Mesh mesh(*plan.plan);
  ProgramGroups groups(*plan.plan, mesh);
  Meetings meetings;
  std::vector<Follower> followers;
  for (uint32_t number = 0; number < plan.programs(); ++number)
    followers.emplace_back(plan, number, mesh, groups, times[number], meetings);
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (Follower &follower : followers)
      hasMoved |= follower.follow();
  }
  PlanTimeline timeline;
  for (Follower &follower : followers) {
    StepTimeline one = follower.finish();
    timeline.makespan = std::max(timeline.makespan, one.makespan);
    timeline.lowerBound = std::max(timeline.lowerBound, one.lowerBound);
    timeline.programs.push_back(std::move(one));
  }
  if (plan.programs() > 1)
    for (int64_t bound : stepLowerBounds(plan, times))
      timeline.lowerBound = std::max(timeline.lowerBound, bound);
  return timeline;
}

} // namespace polyrank::runtime
