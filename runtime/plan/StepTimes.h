// The time of each command of a plan, as the compiler estimates it or as
// measured. polyrank-run --rehearse runs by a file of such times.

#pragma once

#include "runtime/plan/VerifyPlan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Picoseconds of one execution of each command of a program, by segment number
/// and command number. A wait has 0, since its collective has the time. So has
/// a receive: its send has the time until the value arrives.
using ProgramTimes = std::vector<std::vector<int64_t>>;
/// The times of all programs of a plan.
using StepTimes = std::vector<ProgramTimes>;

/// Returns the times in the plan itself.
StepTimes plannedTimesOf(const LoadedPlan &plan);

/// The longest computation of a step in a file of times: a day.
inline constexpr double mostMicroseconds = 86'400e6;

/// Returns the text of a file of times (docs/time.md). It has only the commands
/// that compute, since the times of collectives depend on links and on other
/// ranks. `source` is "planned" or "measured".
std::string timesText(const StepTimes &times, const LoadedPlan &plan,
                      const std::string &source);

/// Reads the times of such a file, and takes those of collectives and sends
/// from the plan. Fails if it is not a file of times, is of another plan, has
/// no time or two times for a command that computes, a time for another
/// command, a time that is not a number from 0 to `mostMicroseconds`, or more
/// than that in a step of all programs together.
Result<StepTimes> readTimes(const std::string &path, const LoadedPlan &plan);

} // namespace polyrank::runtime
