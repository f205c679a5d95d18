// A schedule as a picture.

#pragma once

#include "compiler/stage_order/Simulate.h"

namespace polyrank::stage_order {

/// Ranks from top to bottom, time from left to right, and in each box the
/// number of its microbatch. Parts are told apart by colour and height, chunks
/// by shade. Below a rank's row is what it sends. SVG.
std::string toSvg(const Schedule &schedule, const Simulation &simulation,
                  const std::string &title = "");

} // namespace polyrank::stage_order
