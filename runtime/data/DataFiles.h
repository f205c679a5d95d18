// The files that the user's --data means: paths, patterns, weights.

#pragma once

#include "support/Result.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Files that are taken one after the other.
struct DataFiles {
  std::string given; // as the user wrote it, for messages
  std::vector<std::string> paths;
  std::optional<double> weight; // above 0
};

/// What each of `given` means: `corpus/*.bin` every file of that pattern, by
/// name, byte by byte (glob(7)); `a.bin:0.7` a weight behind the last colon. A
/// file that is really called so is that file. An error where nothing has the
/// name, a file comes twice, or some have a weight and others none.
Result<std::vector<DataFiles>>
findDataFiles(std::span<const std::string> given);

} // namespace polyrank::runtime
