// Reads a trace that polyrank-run --trace wrote.

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
  /// For a collective without a request, and for the wait of one with a
  /// request: when this rank started it, when all ranks had, and when it was
  /// over. For a send: when the rank reached it, when a slot was free, and when
  /// the value arrived. For a receive: when the rank reached it or, if that was
  /// earlier, the value was sent; when the value had been sent; and when it had
  /// arrived. Otherwise zero.
  int64_t flightBegin = 0, allStarted = 0, flightEnd = 0;
};

/// One step on one rank: the commands of its program in the order of the
/// schedule.
using TracedStep = std::vector<TracedCommand>;

struct TraceFile {
  bool isRehearsed = false;
  std::vector<std::string> links; // as --link was given
  int64_t machines = 1;           // that shared the ranks out, in equal parts
  uint64_t firstStep = 0;         // the number of the first step
  std::vector<std::vector<TracedStep>> steps; // steps[step][rank]
};

/// Reads a trace of `plan`. Fails if it is incomplete, is of another plan, has
/// commands in another order than the schedule's, lacks a command or the flight
/// of a collective that has ended, has a time that runs backwards, or lacks the
/// same steps on all ranks of the plan. It is read event by event, so that
/// memory use is smaller than the file.
Result<TraceFile> readTrace(const std::string &path, const LoadedPlan &plan);

} // namespace polyrank::runtime
