// How many microbatches the ranks of a pipeline hold at once.

#pragma once

#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// A rank holds a microbatch of a chunk from the start of its forward to the
/// end of the last part that reads what the forward left: of its backward, or
/// of the weights' part where that is apart. A chunk's microbatch counts as
/// one. A schedule's order alone decides these numbers, not how long it takes.
struct Peaks {
  std::vector<int64_t> ofRanks;
  std::vector<std::vector<int64_t>> ofChunks; // by rank
  /// Of each rank, where what only the gradient of the stage's input reads is
  /// counted: up to the end of that part.
  std::vector<int64_t> untilInput;
};

/// Of a schedule without faults.
Peaks getPeaks(const Schedule &schedule);

} // namespace polyrank::stage_order
