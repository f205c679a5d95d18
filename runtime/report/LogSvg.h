// A picture of the curves of one or several trainings.

#pragma once

#include "runtime/report/LoggedRun.h"

namespace polyrank::runtime {

/// Returns an SVG picture of the training and evaluation losses, the learning
/// rate, and tokens or samples per second, one below the other over the same
/// steps. One run is drawn both raw and smoothed; several runs are only drawn
/// smoothed, each with its own colour and pattern. Values in one column of
/// pixels are drawn as their minimum and maximum.
std::string logSvg(const std::vector<LoggedRun> &runs);

} // namespace polyrank::runtime
