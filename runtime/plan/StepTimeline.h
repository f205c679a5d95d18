// How a step runs as the compiler plans it: when each command, on which queue.

#pragma once

#include "runtime/plan/QueueClock.h"
#include "runtime/plan/StepTimes.h"
#include "runtime/plan/VerifyPlan.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// One execution of a command; of a collective from its start to its end. Times
/// are picoseconds since the step began.
struct PlannedCommand {
  /// Of StepTimeline::queues.
  uint32_t queue = 0;
  QueueClock::Interval time;
  const plan::Command *command = nullptr;
  /// Of the schedule, and in its segment.
  uint32_t action = 0, number = 0;
  /// Of a collective: how long the rank stood for it, and for those that ran in
  /// front of it in its group.
  int64_t stood = 0;
};

struct PlannedSegment {
  std::string name;
  uint32_t microbatch = 0;
  QueueClock::Interval time;
};

/// The executions in one step of all collectives of one kind in one group.
struct OverlapLine {
  std::string kind, axes;
  uint64_t count = 0, started = 0; // of these, before others
  uint64_t bytes = 0;              // that a rank sends
  /// Picoseconds: from start to end, and how much of that the rank computed.
  int64_t time = 0, hidden = 0;
};

struct StepTimeline {
  /// "compute", then the axes of each group.
  std::vector<std::string> queues;
  std::vector<PlannedCommand> commands; // in the order of their starts
  std::vector<PlannedSegment> segments;
  std::vector<OverlapLine> overlap; // what takes longest first
  /// In picoseconds.
  int64_t makespan = 0, computation = 0, communication = 0;
  /// No order of commands takes less: each queue has its work.
  int64_t lowerBound = 0;
};

/// By what the plan says of each command's time (plan.Command.picoseconds).
StepTimeline stepTimelineOf(const LoadedPlan &plan);
/// By other times of the same commands.
StepTimeline stepTimelineOf(const LoadedPlan &plan, const StepTimes &times);

/// The timeline as a picture: a row for each queue. The text of an SVG file.
std::string scheduleSvg(const StepTimeline &timeline, const LoadedPlan &plan);

} // namespace polyrank::runtime
