// Follows the schedule of a plan on the clocks of its queues.

#include "runtime/plan/StepTimeline.h"

#include "runtime/plan/Collectives.h"
#include "runtime/plan/Enums.h"
#include "runtime/plan/PlanMesh.h"

#include <algorithm>
#include <map>

namespace polyrank::runtime {
namespace {

class Follower {
public:
  Follower(const LoadedPlan &plan, const StepTimes &times)
      : program(plan.program()), times(times), mesh(*plan.plan) {
    timeline.queues.push_back("compute");
    for (const plan::AxisList *group : *program.groups())
      timeline.queues.push_back(mesh.describe(group->axes()));
    work.resize(timeline.queues.size());
  }

  StepTimeline follow() {
    for (const plan::Action *action : *program.schedule()) {
      numberOfAction = timeline.segments.size();
      const plan::Segment &segment =
          *program.segments()->Get(action->segment());
      int64_t begin = clock.now();
      if (segment.commands())
        for (uint32_t number = 0; number < segment.commands()->size(); ++number)
          follow(*segment.commands()->Get(number), number,
                 times[action->segment()][number]);
      timeline.segments.push_back(
          {segment.name()->str(), action->microbatch(), {begin, clock.now()}});
    }
    finish();
    return std::move(timeline);
  }

private:
  struct InFlight {
    QueueClock::Interval time;
    OverlapLine *line = nullptr;
    size_t command = 0; // of timeline.commands
  };

  void add(uint32_t queue, QueueClock::Interval time,
           const plan::Command &command, uint32_t number) {
    timeline.commands.push_back(
        {queue, time, &command, uint32_t(numberOfAction), number});
    work[queue] += time.end - time.start;
  }

  void follow(const plan::Command &command, uint32_t number, int64_t duration) {
    if (const plan::Wait *wait = command.body_as_Wait()) {
      await(inFlight.at(wait->ticket()));
      inFlight.erase(wait->ticket());
      return;
    }
    const plan::Collective *collective = command.body_as_Collective();
    if (!collective) {
      add(0, clock.compute(duration), command, number);
      return;
    }
    uint32_t queue = 1 + collective->group();
    QueueClock::Interval time = clock.start(queue, duration);
    add(queue, time, command, number);
    OverlapLine &line = lineOf(*collective);
    ++line.count;
    line.started += collective->ticket() != 0;
    line.time += duration;
    if (program.reasons() && collective->why() < program.reasons()->size())
      line.bytes += program.reasons()->Get(collective->why())->bytes();
    if (collective->ticket())
      inFlight[collective->ticket()] = {time, &line,
                                        timeline.commands.size() - 1};
    else
      await({time, &line, timeline.commands.size() - 1});
  }

  /// What the rank stands is not hidden. Where others of the group run in front
  /// of a collective, it stands for these too.
  void await(const InFlight &one) {
    int64_t stood = clock.wait(one.time);
    int64_t duration = one.time.end - one.time.start;
    timeline.commands[one.command].stood = stood;
    one.line->hidden += duration - std::min(stood, duration);
  }

  OverlapLine &lineOf(const plan::Collective &collective) {
    auto [at, isNew] = lines.try_emplace({int(collective.kind()), collective.group()});
    if (isNew) {
      at->second.kind = nameOf(kindOf(collective.kind()));
      at->second.axes = timeline.queues[1 + collective.group()];
    }
    return at->second;
  }

  void finish() {
    timeline.makespan = clock.now();
    timeline.computation = work[0];
    for (size_t queue = 1; queue < work.size(); ++queue)
      timeline.communication += work[queue];
    timeline.lowerBound = *std::max_element(work.begin(), work.end());
    for (auto &[key, line] : lines)
      timeline.overlap.push_back(line);
    std::stable_sort(timeline.overlap.begin(), timeline.overlap.end(),
                     [](const OverlapLine &a, const OverlapLine &b) {
                       return a.time > b.time;
                     });
  }

  const plan::Program &program;
  const StepTimes &times;
  Mesh mesh;
  size_t numberOfAction = 0;
  QueueClock clock;
  StepTimeline timeline;
  std::vector<int64_t> work; // by queue
  std::map<uint32_t, InFlight> inFlight; // by ticket
  std::map<std::pair<int, uint32_t>, OverlapLine> lines;
};

} // namespace

StepTimeline stepTimelineOf(const LoadedPlan &plan) {
  return stepTimelineOf(plan, plannedTimesOf(plan));
}

StepTimeline stepTimelineOf(const LoadedPlan &plan, const StepTimes &times) {
  return Follower(plan, times).follow();
}

} // namespace polyrank::runtime
