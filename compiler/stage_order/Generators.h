// Generates the order of each named schedule, for one or several chunks per
// rank.

#pragma once

#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// Sizes of a schedule, all at least 1.
struct Sizes {
  int64_t ranks = 1, chunks = 1, microbatches = 1;
};

using Entries = std::vector<Entry>;

/// The entries that rank `rank` runs, in order.
Entries makeGpipe(const Sizes &sizes, int64_t rank);
Entries make1f1b(const Sizes &sizes, int64_t rank);
Entries makeInterleaved(const Sizes &sizes, int64_t rank);
Entries makeZeroBubble(const Sizes &sizes, int64_t rank);
Entries makeZeroBubbleV(const Sizes &sizes, int64_t rank);

/// The sizes of the groups of microbatches after which `interleaved` goes on to
/// the next chunk, in descending order. Each is at least the number of ranks if
/// there are that many microbatches, so that the first microbatch of a group
/// has come back to the first rank when the last one has begun. None is larger
/// than the first, for which the warm-up is made.
std::vector<int64_t> getGroupSizes(int64_t ranks, int64_t microbatches);

} // namespace polyrank::stage_order
