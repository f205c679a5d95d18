// The peak number of microbatches that each rank of a pipeline holds.

#pragma once

#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// A rank holds a microbatch of a chunk from the start of its forward to the
/// end of the last part that reads the saved activations: its backward, or its
/// weight-gradient part if the backward is split. Each pair of chunk and
/// microbatch counts as one. These numbers depend on the schedule's order
/// alone, not on times.
struct Peaks {
  std::vector<int64_t> ofRanks;
  std::vector<std::vector<int64_t>> ofChunks; // by rank
  /// For each rank, the peak of values that only the gradient of the stage's
  /// input reads; they are held until that part ends.
  std::vector<int64_t> untilInput;
};

/// The schedule must pass checkSchedule.
Peaks getPeaks(const Schedule &schedule);

} // namespace polyrank::stage_order
