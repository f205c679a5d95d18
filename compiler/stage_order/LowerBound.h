// A lower bound on the time of a step with given stages.

#pragma once

#include "compiler/stage_order/Simulate.h"

namespace polyrank::stage_order {

/// Returns Simulation::lowerBound: no order of the schedule's entries has a
/// smaller makespan. The sizes of `times` must fit the schedule.
int64_t getLowerBound(const Schedule &schedule, const Times &times);

} // namespace polyrank::stage_order
