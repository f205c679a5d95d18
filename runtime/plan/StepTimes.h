// How long each command of a plan takes: as the compiler reckons, or as it was
// measured. A file of times is what polyrank-run --rehearse runs by.

#pragma once

#include "runtime/plan/VerifyPlan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Picoseconds of one execution of each command of a program, by the numbers of
/// its segment and of itself. A wait has 0: what it waits for takes time. So
/// has a receive: the send has what the value takes until it arrives.
using ProgramTimes = std::vector<std::vector<int64_t>>;
/// Of all programs of a plan.
using StepTimes = std::vector<ProgramTimes>;

/// What the plan itself says.
StepTimes plannedTimesOf(const LoadedPlan &plan);

/// The longest that a step may compute in a file of times: a day.
inline constexpr double mostMicroseconds = 86'400e6;

/// The text of a file of times (docs/time.md): of what a rank computes, for
/// what its collectives take depends on links and on other ranks. `source` says
/// what the times are, "planned" or "measured".
std::string timesText(const StepTimes &times, const LoadedPlan &plan,
                      const std::string &source);

/// The times of such a file, with what the plan says of collectives and sends.
/// Refuses a file that is no such thing, is of another plan, has no time or two
/// for a command that is computed, one for a command that is not, one that is
/// no number from 0 to `mostMicroseconds`, or more than these in a step of all
/// programs together.
Result<StepTimes> readTimes(const std::string &path, const LoadedPlan &plan);

} // namespace polyrank::runtime
