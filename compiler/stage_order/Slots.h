// The number of slots that transfers between stages need.

#pragma once

#include "compiler/stage_order/Programs.h"
#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// The smallest number of slots per transfer with which no ranks wait for each
/// other in a circle. The schedule must have no other fault.
int64_t getLeastSlots(const Schedule &schedule,
                      const std::vector<StagePair> &skips = {});

/// The smallest number of slots per transfer with which a step takes no longer
/// than with more, if every part takes the same time and transfers take none.
/// With fewer slots, senders wait for receivers.
int64_t getSlots(const Schedule &schedule,
                 const std::vector<StagePair> &skips = {});

} // namespace polyrank::stage_order
