// Finds options of a run that have no effect on it.

#pragma once

#include "runtime/session/SessionOptions.h"

namespace polyrank::runtime {

/// Returns a text with the reason for each option of the command line that has
/// no effect in a run of `steps` steps, of which `stepsBefore` were done before
/// the checkpoint.
std::vector<std::string> findIdle(const SessionOptions &options,
                                  const LoadedPlan &plan, uint64_t steps,
                                  uint64_t stepsBefore);

} // namespace polyrank::runtime
