// A training's log as curves over its steps.

#pragma once

#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// The contents of one log that a picture shows.
struct LoggedRun {
  using Curve = std::vector<std::pair<double, double>>; // (step, value)

  std::string name;                          // of the file
  std::string plan, mesh;                    // of its last start; may be empty
  Curve loss, evalLoss, learningRate, speed; // NaN if it is not finite
  bool speedIsOfTokens = false;              // else samples
  std::vector<uint64_t> resumed; // the first step of each start but the first
  uint64_t lastStep = 0;
};

/// Reads a log; one without any step is an error.
Result<LoggedRun> readLoggedRun(const std::string &path);

/// Returns the points of `curve` that suffice to draw it on `columns` pixels
/// for steps `first` to `last`: the first, least, greatest and last value of
/// each column, in their order. A NaN is kept, once per column.
LoggedRun::Curve thinned(const LoggedRun::Curve &curve, double first,
                         double last, int columns);

/// Returns means over `window` values, centered, so that they do not lag. Near
/// the begin the window shrinks on both sides; near the end it has only the
/// values that exist. A NaN stays NaN and is left out of the other means.
LoggedRun::Curve smoothed(const LoggedRun::Curve &curve, size_t window);

} // namespace polyrank::runtime
