// Checks that a schedule does what a step needs, and that it terminates.
//
//  1. The schedule has at least one microbatch and one rank; every rank has a
//     stage, and every stage a rank.
//  2. An entry names a chunk that its rank has, a microbatch of the step, and a
//     part that is asked for: forwards alone, forwards with whole backwards, or
//     forwards with backwards in two parts.
//  3. Every part of every stage runs once for each microbatch.
//  4. The entries of one part of a stage run in ascending order of
//     microbatches: sums of gradients, sums of losses and the running
//     statistics of batch norm are accumulated in this order under every
//     schedule, so no bit depends on the schedule.
//  5. On each rank, a microbatch's forward runs before its backward, and its
//     input gradient before its weight gradients. Of two stages of a rank, the
//     earlier runs the microbatch's forward first, the later its backward.
//  6. No ranks wait for each other in a circle when each transfer between
//     stages has a limited number of slots.
//  7. A rank holds at most as many microbatches as are allowed.

#pragma once

#include "compiler/stage_order/Programs.h"
#include "compiler/stage_order/Schedule.h"

#include <optional>

namespace polyrank::stage_order {

struct CheckOptions {
  bool trains = true;
  /// How many values of one transfer can be sent but not yet received. 0 means
  /// as many as there are microbatches.
  int64_t slots = 0;
  /// The most microbatches that a rank can hold (Peaks::ofRanks).
  std::optional<int64_t> mostHeld = {};
  /// Transfers in addition to those from each stage to the next: from the
  /// forward of an earlier stage to the forward of a later one.
  std::vector<StagePair> skips = {};
};

/// Fails if the schedule breaks a rule. The error shows a smallest set of
/// entries that proves it: one entry, two entries of one rank, or the fewest
/// ranks that wait for each other in a circle.
Result<void> checkSchedule(const Schedule &schedule,
                           const CheckOptions &options = {});

} // namespace polyrank::stage_order
