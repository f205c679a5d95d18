// The files that the user's --data names: paths, patterns, weights.

#pragma once

#include "support/Result.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Files that are read as one sequence, one after another.
struct DataFiles {
  std::string given; // as the user wrote it, for messages
  std::vector<std::string> paths;
  std::optional<double> weight; // above 0
};

/// Takes the weight after the last colon of a value of --data, and leaves the
/// text before it in `text`. If that is not a number there is no weight, and
/// the colon belongs to the name; so it does if a file has the whole name.
/// Fails unless the weight is above 0.
Result<std::optional<double>> takeWeight(std::string &text);

/// Resolves each of `given`: `corpus/*.bin` is every file that matches the
/// pattern (glob(7)), sorted bytewise by name; `a.bin:0.7` has a weight after
/// the last colon. A file that literally has the given name takes precedence.
/// It is an error if no file has the name, a file occurs twice, or only some
/// have a weight.
Result<std::vector<DataFiles>>
findDataFiles(std::span<const std::string> given);

} // namespace polyrank::runtime
