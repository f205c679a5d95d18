// How a step runs as the compiler plans it: when each command, on which queue
// of which program.

#pragma once

#include "runtime/plan/QueueClock.h"
#include "runtime/plan/StepTimes.h"
#include "runtime/plan/VerifyPlan.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// One execution of a command; of a collective from its start to its end, of a
/// value that goes to another rank from when it is sent to when it has arrived.
/// Times are picoseconds since the step began.
struct PlannedCommand {
  /// Of StepTimeline::queues.
  uint32_t queue = 0;
  QueueClock::Interval time;
  const plan::Command *command = nullptr;
  /// Of the schedule, and in its segment.
  uint32_t action = 0, number = 0;
  /// Of a collective: how long the rank stood for it, and for those that ran in
  /// front of it in its group. Of a send: until there was room; of a receive:
  /// until the value had arrived.
  int64_t stood = 0;
};

struct PlannedSegment {
  std::string name;
  uint32_t microbatch = 0;
  QueueClock::Interval time;
};

/// The executions in one step of all collectives of one kind in one group, or
/// of all that goes to, or comes from, one other rank.
struct OverlapLine {
  std::string kind, axes;
  uint64_t count = 0, started = 0; // of these, before others
  uint64_t bytes = 0;              // that a rank sends
  /// Picoseconds: from start to end, and how much of that the rank computed.
  int64_t time = 0, hidden = 0;
};

/// Of a rank, like all others that run the program.
struct StepTimeline {
  std::string place; // "pipe=1"; empty where all run it
  /// "compute", then the axes of each group, then "pipe 0 to 1" of each link
  /// over which the rank sends or receives.
  std::vector<std::string> queues;
  std::vector<PlannedCommand> commands; // in the order of their starts
  std::vector<PlannedSegment> segments;
  std::vector<OverlapLine> overlap; // what takes longest first
  /// In picoseconds: to the end of its last command.
  int64_t makespan = 0, computation = 0, communication = 0;
  /// No order of commands takes less: each queue has its work.
  int64_t lowerBound = 0;
};

/// Of all programs, which begin together.
struct PlanTimeline {
  std::vector<StepTimeline> programs;
  int64_t makespan = 0, lowerBound = 0;

  /// How long a rank of the program computes nothing in a step.
  int64_t idle(size_t program) const {
    return makespan - programs[program].computation;
  }
  double bubble(size_t program) const {
    return makespan ? double(idle(program)) / double(makespan) : 0;
  }
};

/// By what the plan says of each command's time (plan.Command.picoseconds).
PlanTimeline planTimelineOf(const LoadedPlan &plan);
/// By other times of the same commands.
PlanTimeline planTimelineOf(const LoadedPlan &plan, const StepTimes &times);

/// The timeline as a picture: of each program a row for each queue. The text of
/// an SVG file.
std::string scheduleSvg(const PlanTimeline &timeline, const LoadedPlan &plan);

} // namespace polyrank::runtime
