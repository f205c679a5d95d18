// Options of a run that leave it as it would be without them.

#pragma once

#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// One text for each option of the command line that changes nothing in a run
/// of `steps` steps, of which a checkpoint had done `stepsBefore`, with the
/// reason.
std::vector<std::string> findIdle(const RunOptions &options,
                                  const LoadedPlan &plan, uint64_t steps,
                                  uint64_t stepsBefore);

} // namespace polyrank::runtime
