// Draws a schedule as a picture.

#pragma once

#include "compiler/stage_order/Simulate.h"

namespace polyrank::stage_order {

/// Returns an SVG with ranks from top to bottom and time from left to right.
/// Each box shows the number of its microbatch. Colour and height tell the
/// parts apart, shade the chunks. A rank's transfers are drawn below its row.
std::string toSvg(const Schedule &schedule, const Simulation &simulation,
                  const std::string &title = "");

} // namespace polyrank::stage_order
