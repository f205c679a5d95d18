// Files that people have and that are read by way of something else.

#pragma once

#include "support/Result.h"

#include <string>

namespace polyrank::runtime {

/// Fails if the name of a file of samples says that it has a format which is
/// not read directly (Parquet, JSON lines, archives ..), or if it is a folder.
/// The error says what to type instead.
Result<void> refuseOtherFormat(const std::string &path);

} // namespace polyrank::runtime
