// The order of each schedule, for one chunk of every rank or for several.

#pragma once

#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// Sizes of a schedule, all at least 1.
struct Sizes {
  int64_t ranks = 1, chunks = 1, microbatches = 1;
};

using Entries = std::vector<Entry>;

/// What rank `rank` runs.
Entries makeGpipe(const Sizes &sizes, int64_t rank);
Entries make1f1b(const Sizes &sizes, int64_t rank);
Entries makeInterleaved(const Sizes &sizes, int64_t rank);
Entries makeZeroBubble(const Sizes &sizes, int64_t rank);
Entries makeZeroBubbleV(const Sizes &sizes, int64_t rank);

/// In how many microbatches at a time `interleaved` goes on to the next chunk:
/// the sizes of these groups, descending. Each is at least the number of ranks
/// where there are as many microbatches, so that the first microbatch of a
/// group has come around when the last has begun. None is larger than the
/// first, for which the warm-up is made.
std::vector<int64_t> getGroupSizes(int64_t ranks, int64_t microbatches);

} // namespace polyrank::stage_order
