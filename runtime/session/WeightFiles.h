// A rank's part in writing the files of weights.

#pragma once

#include "runtime/session/LoadedRank.h"

namespace polyrank::runtime {

/// Writes all requested files of weights, after the last step that ran. Called
/// by all ranks; rank 0 reports.
Result<void> writeWeightFiles(LoadedRank &rank);

} // namespace polyrank::runtime
