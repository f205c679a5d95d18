// Compares a planned step with the same step as it ran.

#pragma once

#include "runtime/plan/StepTimes.h"
#include "runtime/report/TraceFile.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Seconds of one step: planned, and measured as the mean over the ranks.
struct Planned {
  double planned = 0, measured = 0;
  double excess() const { return measured - planned; }
};

/// All executions of commands that do the same work for the same op of the
/// user's model. Ops that differ only in layer numbers are one line.
struct OpLine {
  std::string op, phase, work; // "h.[0-11].mlp.c_fc", "backward", "gemm 8x4x2"
  uint64_t count = 0;          // per step
  Planned time;
};

/// All collectives of one kind over one set of axes, or all sends to, or
/// receives from, one other rank.
struct CollectiveLine {
  std::string kind, axes;
  uint64_t count = 0, started = 0; // of these, started ahead of their wait
  /// The time of the collectives. The measured time is that of the emulated
  /// link (--link) if there is one, and between machines that from the last
  /// start to the end, since the network moves the data; otherwise it is the
  /// time that the rank stalled, since the ranks themselves do the work
  /// meanwhile.
  Planned time;
  /// How long the rank stalled for it: the rest of `time` is overlapped.
  Planned stood;
  /// How long the rank stalled before that, until all ranks had started it.
  double forOthers = 0;

  static double hiddenShare(double time, double stood) {
    return time > 0 ? 1 - stood / time : 0;
  }
};

struct QueueLine {
  std::string name; // "compute", or the axes of a group
  Planned busy;
};

/// The ranks that run one program: what they compute, and the rest of the step.
struct ProgramLine {
  std::string place; // "pipe=1"; empty if all run it
  Planned computing, idle;
};

struct Comparison {
  /// The step that was compared: the fastest one, without the first if there
  /// are others. Times are means over `ranks`.
  uint64_t step = 0;
  size_t steps = 0, ranks = 0; // in the trace
  bool isRehearsed = false;
  std::vector<std::string> links;
  Planned makespan;
  std::vector<ProgramLine> programs; // as in the plan
  std::vector<QueueLine> queues;
  Planned stood;           // in collectives that all ranks had started
  double forOthers = 0;    // measured: until all ranks had started them
  double starting = 0;     // measured: to start collectives
  double outside = 0;      // measured: between commands
  std::vector<OpLine> ops; // largest excess over the plan first
  std::vector<CollectiveLine> collectives; // longest first
};

/// `linkTimes` has the times of collectives over the emulated links of the run,
/// zero without a link.
Comparison compare(const LoadedPlan &plan, const TraceFile &trace,
                   const StepTimes &linkTimes);
/// The report "comparison" of docs/reports.md.
nlohmann::ordered_json toJson(const Comparison &comparison);

/// Returns for each command that computes the minimum time over all ranks and
/// steps, without the first step if there are others.
StepTimes measuredTimesOf(const LoadedPlan &plan, const TraceFile &trace);

} // namespace polyrank::runtime
