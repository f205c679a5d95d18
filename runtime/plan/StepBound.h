// A lower bound on the time of a step, whatever the order in which each rank
// runs its segments.

#pragma once

#include "runtime/plan/StepTimes.h"

#include <vector>

namespace polyrank::runtime {

/// Picoseconds that a step takes at least, for each program:
///
///   max over h of (h + the time of all runs that cannot begin before h)
///   + what must follow the program's last run on other ranks.
///
/// A run begins at the earliest when the values that it receives have arrived,
/// if every rank could run any number of segments at once, and no earlier than
/// the runs before it for the same microbatch. It takes as long as its segment
/// does alone. So the bound ignores that ranks and links are busy with other
/// runs, and that slots may be full. It holds for each order of the runs that
/// ends with the same one, which has the update (Jackson's bound: heads, work
/// and tails).
std::vector<int64_t> stepLowerBounds(const LoadedPlan &plan,
                                     const StepTimes &times);

} // namespace polyrank::runtime
