// A trace that polyrank-run --trace wrote, read again.

#pragma once

#include "runtime/plan/VerifyPlan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// One execution of a command on one rank. Times are nanoseconds of the clock
/// that all ranks of the run shared.
struct TracedCommand {
  int64_t begin = 0, end = 0;
  /// Of a collective without a ticket, and of the wait for one that has one:
  /// when this rank started it, when all had, and when it was over. Of a send:
  /// when the rank came to it, when there was room, and when the value arrived;
  /// of a receive: when the rank came to it or, where that was before, the
  /// value was sent, when it had been sent, and when it was there. Else zero.
  int64_t flightBegin = 0, allStarted = 0, flightEnd = 0;
};

/// One step on one rank: the commands of its program in the order of the
/// schedule.
using TracedStep = std::vector<TracedCommand>;

struct TraceFile {
  bool isRehearsed = false;
  std::vector<std::string> links;             // as --link was given
  uint64_t firstStep = 0;                     // its number
  std::vector<std::vector<TracedStep>> steps; // each with its ranks
};

/// Reads a trace of `plan`. Refuses what is no whole trace, is of another plan,
/// has commands in another order than the schedule's, lacks one, lacks the
/// flight of a collective that has ended, has a time that runs backwards, or
/// not the same steps on all ranks of the plan. It is read event by event: what
/// is kept is smaller than the file.
Result<TraceFile> readTrace(const std::string &path, const LoadedPlan &plan);

} // namespace polyrank::runtime
