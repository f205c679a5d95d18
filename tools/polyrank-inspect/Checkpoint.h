// polyrank-inspect CHECKPOINT.

#pragma once

#include "support/Result.h"

#include <string>

namespace polyrank::runtime {

/// Prints what a checkpoint holds, or of a folder each of its checkpoints and
/// everything of the newest whole one; with `json` as an object. With `check`
/// every byte is compared with its checksum. A damaged one is an error.
Result<void> inspectCheckpoint(const std::string &path, bool json, bool check);

} // namespace polyrank::runtime
