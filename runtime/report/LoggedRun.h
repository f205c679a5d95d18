// What a log says of a training, as curves over its steps.

#pragma once

#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// What a picture shows of one log.
struct LoggedRun {
  using Curve = std::vector<std::pair<double, double>>; // (step, value)

  std::string name;                          // of the file
  std::string plan, mesh;                    // of its last start; may be empty
  Curve loss, evalLoss, learningRate, speed; // NaN where it is not finite
  bool speedIsOfTokens = false;              // else of samples
  std::vector<uint64_t> resumed; // first steps of starts but the first
  uint64_t lastStep = 0;
};

/// An error where there is no step in it.
Result<LoggedRun> readLoggedRun(const std::string &path);

/// The values that a line through `curve` must pass to look as one through all
/// of them, where `columns` pixels show steps `first` to `last`: of each column
/// its first, least, greatest and last value, in their order. A NaN stays, once
/// in a column.
LoggedRun::Curve thinned(const LoggedRun::Curve &curve, double first,
                         double last, int columns);

/// Means over `window` values, as many before each as behind it: they do not
/// lag. Of the first ones over fewer, on both sides; of the last ones over
/// those that there are. A NaN stays one and counts for nothing.
LoggedRun::Curve smoothed(const LoggedRun::Curve &curve, size_t window);

} // namespace polyrank::runtime
