// The checks of a session's input, in the launcher.

#pragma once

#include "runtime/session/Prepared.h"
#include "support/Outputs.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// @{ Each check fills what it has found into `run`, and returns a text about
/// it. With `whole` it is complete, and the text is not empty; else it leaves
/// to the ranks what they check.
Result<std::string> checkWeights(Prepared &run, bool whole);
Result<std::string> checkData(Prepared &run, bool whole);
Result<std::string> checkMemory(Prepared &run, bool whole);
/// Creates the files that the run writes and, unless `whole`, the windows
/// of its ranks.
Result<std::string> checkDisk(Prepared &run, bool whole);
/// @}

/// Returns all files that the run writes, except those of checkpoints.
Result<std::vector<OutputUse>> outputUsesOf(const Prepared &run);

/// Returns "1 rank" or "4 ranks".
std::string plural(uint64_t count, const char *thing);

} // namespace polyrank::runtime
