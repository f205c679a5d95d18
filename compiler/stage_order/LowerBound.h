// The least time in which a step of given stages can end.

#pragma once

#include "compiler/stage_order/Simulate.h"

namespace polyrank::stage_order {

/// Simulation::lowerBound, which no order of the schedule's entries goes below.
/// Times fit the schedule.
int64_t getLowerBound(const Schedule &schedule, const Times &times);

} // namespace polyrank::stage_order
