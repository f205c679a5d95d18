// The command polyrank-inspect CHECKPOINT.

#pragma once

#include "support/Result.h"

#include <string>

namespace polyrank::runtime {

/// Prints the contents of a checkpoint, or for a folder a list of its
/// checkpoints and the contents of the newest intact one; with `json` as an
/// object. With `check` every byte is compared with its checksum. A damaged
/// checkpoint is an error.
Result<void> inspectCheckpoint(const std::string &path, bool json, bool check);

} // namespace polyrank::runtime
