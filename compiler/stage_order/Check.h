// Whether a schedule does what a step needs, and ends.
//
//  1. There is a microbatch and a rank, every rank has a stage, and every stage
//     a rank.
//  2. An entry is of a chunk that its rank has, of a microbatch of the step,
//     and of a part that is asked for: forwards alone, with whole backwards, or
//     with backwards in two parts.
//  3. Every part of every stage runs once for each microbatch.
//  4. Those of one part of a stage run in ascending order of microbatches: sums
//     of gradients, of losses and what batch norm carries on are added to in
//     this order whatever the schedule, so that no bit depends on it.
//  5. On each rank: a microbatch's forward before its backward, input before
//     weights; and of two of its stages the earlier forward and the later
//     backward first.
//  6. No ranks wait for each other in a circle, where what goes from stage to
//     stage has slots.
//  7. A rank holds no more microbatches than are allowed.

#pragma once

#include "compiler/stage_order/Programs.h"
#include "compiler/stage_order/Schedule.h"

#include <optional>

namespace polyrank::stage_order {

struct CheckOptions {
  bool trains = true;
  /// How many values of one transfer can be sent and not yet received. 0: as
  /// many as there are microbatches.
  int64_t slots = 0;
  /// What a rank can hold (Peaks::ofRanks).
  std::optional<int64_t> mostHeld = {};
  /// Transfers beside those from each stage to the next: from the forward of
  /// an earlier stage to that of a later one.
  std::vector<StagePair> skips = {};
};

/// Says what is wrong by the entries that show it, in the shortest way there
/// is: one entry, two of one rank, or the fewest ranks that wait for each other
/// in a circle.
Result<void> checkSchedule(const Schedule &schedule,
                           const CheckOptions &options = {});

} // namespace polyrank::stage_order
