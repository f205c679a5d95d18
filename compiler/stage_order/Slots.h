// How many values of a transfer wait between its stages.

#pragma once

#include "compiler/stage_order/Programs.h"
#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// The least number of slots, of every transfer, with which no ranks wait in a
/// circle. The schedule has no other fault.
int64_t getLeastSlots(const Schedule &schedule,
                      const std::vector<StagePair> &skips = {});

/// The least number with which a step takes no longer than with any more, where
/// every part takes the same time and transfers take none. With fewer, senders
/// stand until somebody has received.
int64_t getSlots(const Schedule &schedule,
                 const std::vector<StagePair> &skips = {});

} // namespace polyrank::stage_order
