// A step as it was planned beside the same step as it ran.

#pragma once

#include "runtime/plan/StepTimes.h"
#include "runtime/report/TraceFile.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Seconds of one step: by the plan, and measured, as the mean over the ranks.
struct Planned {
  double planned = 0, measured = 0;
  double excess() const { return measured - planned; }
};

/// All executions of commands that do the same for the same op of the user's
/// model; ops that differ in the numbers of layers only are one.
struct OpLine {
  std::string op, phase, work; // "h.[0-11].mlp.c_fc", "backward", "gemm 8x4x2"
  uint64_t count = 0;          // in a step
  Planned time;
};

/// All collectives of one kind over one set of axes, or all that goes to, or
/// comes from, one other rank.
struct CollectiveLine {
  std::string kind, axes;
  uint64_t count = 0, started = 0; // of these, before others
  /// What it takes; measured over a link that held it back (--link) what that
  /// takes, without one what the rank stood, for ranks do the work themselves
  /// meanwhile.
  Planned time;
  /// How long the rank stood meanwhile: the rest of `time` is hidden.
  Planned stood;
  /// How long it stood before, since other ranks had not started it.
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
  std::string place; // "pipe=1"; empty where all run it
  Planned computing, idle;
};

struct Comparison {
  /// Which step was compared: the fastest, but for the first where there are
  /// others; a mean over `ranks`.
  uint64_t step = 0;
  size_t steps = 0, ranks = 0; // in the trace
  bool isRehearsed = false;
  std::vector<std::string> links;
  Planned makespan;
  std::vector<ProgramLine> programs; // as in the plan
  std::vector<QueueLine> queues;
  Planned stood;           // in collectives that all ranks had started
  double forOthers = 0;    // measured: until other ranks had started them
  double starting = 0;     // measured: to start collectives
  double outside = 0;      // measured: between commands
  std::vector<OpLine> ops; // what took longest beyond its plan first
  std::vector<CollectiveLine> collectives; // what takes longest first
};

/// `linkTimes` has what collectives take over the links of the run, zero where
/// nothing held them back.
Comparison compare(const LoadedPlan &plan, const TraceFile &trace,
                   const StepTimes &linkTimes);
/// The report "comparison" of docs/reports.md.
nlohmann::ordered_json toJson(const Comparison &comparison);

/// Of each command that is computed the least that it took on any rank in any
/// step, but for the first where there are others.
StepTimes measuredTimesOf(const LoadedPlan &plan, const TraceFile &trace);

} // namespace polyrank::runtime
