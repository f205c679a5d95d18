// How trainings went, as a picture.

#pragma once

#include "runtime/report/LoggedRun.h"

namespace polyrank::runtime {

/// Loss with the losses of evaluations, learning rate, and tokens or samples
/// per second, one below the other over the same steps: as they are and
/// smoothed of one run; smoothed of several, each with a colour and a pattern
/// of its own. What falls on one column of pixels is drawn as its least and its
/// greatest value. The text of an SVG file.
std::string logSvg(const std::vector<LoggedRun> &runs);

} // namespace polyrank::runtime
