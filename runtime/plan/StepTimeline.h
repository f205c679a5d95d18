// The planned timeline of a step: when each command runs, on which queue of
// which program.

#pragma once

#include "runtime/plan/QueueClock.h"
#include "runtime/plan/StepTimes.h"
#include "runtime/plan/VerifyPlan.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// One execution of a command. A collective lasts from its start to its end, a
/// send from when the value is sent to when it has arrived. Times are
/// picoseconds since the step began.
struct PlannedCommand {
  /// An index of StepTimeline::queues.
  uint32_t queue = 0;
  QueueClock::Interval time;
  const plan::Command *command = nullptr;
  /// The number of the action in the schedule, and of the command in its
  /// segment.
  uint32_t action = 0, number = 0;
  /// How long the rank stalled. For a collective: until it and those before it
  /// in its group had ended; for a send: until a slot was free; for a receive:
  /// until the value had arrived.
  int64_t stood = 0;
};

struct PlannedSegment {
  std::string name;
  uint32_t microbatch = 0;
  QueueClock::Interval time;
};

/// The executions in one step of all collectives of one kind in one group, or
/// of all sends to, or receives from, one other rank.
struct OverlapLine {
  std::string kind, axes;
  uint64_t count = 0, started = 0; // of these, started ahead of their wait
  uint64_t bytes = 0;              // sent by a rank
  /// Picoseconds from start to end, and how much of that is overlapped with the
  /// rank's computation.
  int64_t time = 0, hidden = 0;
};

/// The timeline of one rank of a program; all its ranks have the same.
struct StepTimeline {
  std::string place; // "pipe=1"; empty if all ranks run it
  /// "compute", then the names of the communication queues
  /// (communicationQueueNames).
  std::vector<std::string> queues;
  std::vector<int64_t> busy;            // picoseconds of work, by queue
  std::vector<PlannedCommand> commands; // in the order of their starts
  std::vector<PlannedSegment> segments;
  std::vector<OverlapLine> overlap; // longest first
  /// In picoseconds. `makespan` is the end of its last command.
  int64_t makespan = 0, computation = 0, communication = 0;
  /// A lower bound for any order of the commands: the work of each queue.
  int64_t lowerBound = 0;
};

/// The timelines of all programs, which begin together. The lower bound is the
/// largest of the programs', and of several programs also that of StepBound.h,
/// which knows when values can arrive from other programs.
struct PlanTimeline {
  std::vector<StepTimeline> programs;
  int64_t makespan = 0, lowerBound = 0;

  /// How long a rank of the program is idle in a step.
  int64_t idle(size_t program) const {
    return makespan - programs[program].computation;
  }
  double bubble(size_t program) const {
    return makespan ? double(idle(program)) / double(makespan) : 0;
  }
};

/// Simulates a step with the plan's own times (plan.Command.picoseconds).
PlanTimeline planTimelineOf(const LoadedPlan &plan);
/// Simulates a step with other times of the same commands.
PlanTimeline planTimelineOf(const LoadedPlan &plan, const StepTimes &times);

/// Returns the timeline as an SVG picture, with a row for each queue of each
/// program.
std::string scheduleSvg(const PlanTimeline &timeline, const LoadedPlan &plan);

} // namespace polyrank::runtime
