// Follows the values from program to program without letting runs wait for a
// busy rank, first forward for the earliest starts, then back for the tails.

#include "runtime/plan/StepBound.h"

#include "runtime/plan/ProgramGroups.h"
#include "runtime/plan/QueueClock.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace polyrank::runtime {
namespace {

/// A value's id, and the programs that send and receive it.
using ChannelKey = std::tuple<uint64_t, uint32_t, uint32_t>;

/// The send or receive of a segment that runs alone.
struct Passing {
  ChannelKey channel;
  bool isSend = false;
  int64_t offset = 0; // from the begin of the segment
  int64_t travel = 0; // of a send, until the value has arrived
};

/// A segment that runs alone, and never waits for other programs.
struct AloneSegment {
  int64_t duration = 0;
  std::vector<Passing> passings; // in order
};

AloneSegment runAlone(const plan::Segment &segment,
                      const std::vector<int64_t> &times, uint32_t program,
                      const ProgramGroups &groups) {
  AloneSegment alone;
  QueueClock clock;
  std::map<uint32_t, QueueClock::Interval> inFlight; // by request
  for (uint32_t i = 0; segment.commands() && i < segment.commands()->size();
       ++i) {
    const plan::Command &command = *segment.commands()->Get(i);
    if (const plan::Wait *wait = command.body_as_Wait()) {
      clock.wait(inFlight[wait->request()]);
    } else if (const plan::Send *send = command.body_as_Send()) {
      uint32_t to = groups.memberOf(program, send->group(), send->to());
      alone.passings.push_back(
          {{send->id(), program, to}, true, clock.now(), times[i]});
    } else if (const plan::Receive *receive = command.body_as_Receive()) {
      uint32_t from =
          groups.memberOf(program, receive->group(), receive->from());
      alone.passings.push_back(
          {{receive->id(), from, program}, false, clock.now(), 0});
    } else if (const plan::Collective *collective =
                   command.body_as_Collective()) {
      QueueClock::Interval time = clock.start(command.queue(), times[i]);
      if (collective->request())
        inFlight[collective->request()] = time;
      else
        clock.wait(time);
    } else {
      clock.compute(times[i]);
    }
  }
  alone.duration = clock.now();
  return alone;
}

class Bounds {
public:
  Bounds(const LoadedPlan &plan, const StepTimes &times)
      : plan(plan), mesh(*plan.plan), groups(*plan.plan, mesh) {
    for (uint32_t number = 0; number < plan.programs(); ++number) {
      const plan::Program &program = plan.program(number);
      Runs &own = runs.emplace_back();
      for (uint32_t s = 0; s < program.segments()->size(); ++s)
        own.segments.push_back(runAlone(*program.segments()->Get(s),
                                        times[number][s], number, groups));
      own.heads.resize(program.schedule()->size());
      for (const plan::Action *action : *program.schedule())
        own.lengths.push_back(own.segments[action->segment()].duration);
    }
  }

  std::vector<int64_t> get() {
    findHeads();
    findTails();
    std::vector<int64_t> bounds;
    for (const Runs &own : runs)
      bounds.push_back(getBound(own));
    return bounds;
  }

private:
  /// The runs of one program.
  struct Runs {
    std::vector<AloneSegment> segments;
    // By action of the schedule: the earliest begin, the duration, and the time
    // from the begin until all that follows on other ranks has ended.
    std::vector<int64_t> heads, lengths, tails;
    size_t action = 0, passing = 0;    // how far the values have been followed
    std::map<uint32_t, int64_t> begun; // by microbatch
  };
  struct Channel {
    std::vector<int64_t> arrivals;
    size_t received = 0;
    std::vector<int64_t> tails; // of the receives
  };
  /// One send or receive of one run, the `count`th of its channel.
  struct Event {
    uint32_t program;
    size_t action;
    const Passing *passing;
    size_t count;
  };

  const AloneSegment &segmentOf(uint32_t number, size_t action) const {
    return runs[number].segments[plan.program(number)
                                     .schedule()
                                     ->Get(static_cast<uint32_t>(action))
                                     ->segment()];
  }
  /// Follows a program as far as the values that it receives are known.
  /// Returns whether it made progress.
  bool follow(uint32_t number);
  void findHeads();
  void findTails();
  static int64_t getBound(const Runs &own);

  const LoadedPlan &plan;
  Mesh mesh;
  ProgramGroups groups;
  std::vector<Runs> runs; // by program
  std::map<ChannelKey, Channel> channels;
  std::vector<Event> events; // each receive after its send
};

bool Bounds::follow(uint32_t number) {
  Runs &own = runs[number];
  const auto &schedule = *plan.program(number).schedule();
  bool hasMoved = false;
  for (; own.action < schedule.size(); ++own.action, own.passing = 0) {
    const plan::Action &action =
        *schedule.Get(static_cast<uint32_t>(own.action));
    int64_t &head = own.heads[own.action];
    int64_t &begun = own.begun[action.microbatch()];
    head = std::max(head, begun);
    const std::vector<Passing> &passings =
        segmentOf(number, own.action).passings;
    for (; own.passing < passings.size(); ++own.passing, hasMoved = true) {
      const Passing &passing = passings[own.passing];
      Channel &channel = channels[passing.channel];
      size_t count = channel.arrivals.size();
      if (passing.isSend) {
        channel.arrivals.push_back(head + passing.offset + passing.travel);
      } else {
        count = channel.received;
        if (count == channel.arrivals.size())
          return hasMoved;
        head = std::max(head, channel.arrivals[count] - passing.offset);
        ++channel.received;
      }
      events.push_back({number, own.action, &passing, count});
    }
    begun = head;
    hasMoved = true;
  }
  return hasMoved;
}

void Bounds::findHeads() {
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (uint32_t number = 0; number < runs.size(); ++number)
      hasMoved |= follow(number);
  }
}

void Bounds::findTails() {
  for (Runs &own : runs)
    own.tails = own.lengths;
  for (auto &[key, channel] : channels)
    channel.tails.resize(channel.arrivals.size());
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    int64_t &tail = runs[event->program].tails[event->action];
    const Passing &passing = *event->passing;
    int64_t &ofReceive = channels[passing.channel].tails[event->count];
    if (passing.isSend)
      tail = std::max(tail, passing.offset + passing.travel + ofReceive);
    else
      ofReceive = tail - passing.offset;
  }
}

int64_t Bounds::getBound(const Runs &own) {
  if (own.heads.empty())
    return 0;
  std::vector<std::pair<int64_t, int64_t>> byHead;
  for (size_t action = 0; action < own.heads.size(); ++action)
    byHead.emplace_back(own.heads[action], own.lengths[action]);
  std::sort(byHead.rbegin(), byHead.rend());
  int64_t bound = 0, work = 0;
  for (auto [head, length] : byHead) {
    work += length;
    bound = std::max(bound, head + work);
  }
  return bound + own.tails.back() - own.lengths.back();
}

} // namespace

std::vector<int64_t> stepLowerBounds(const LoadedPlan &plan,
                                     const StepTimes &times) {
  return Bounds(plan, times).get();
}

} // namespace polyrank::runtime
