// Chooses the buckets of collectives by a clock: the sizes with which the link
// is through soonest. Without MLIR.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace polyrank::sharding {

/// One tensor that a collective moves.
struct BucketItem {
  /// When its operand is there or, of a gather that is started ahead of its
  /// use, when its result is needed; picoseconds on the clock of the
  /// computation, ascending.
  double time = 0;
  int64_t bytes = 0; // that it takes in the bucket
  int64_t sent = 0;  // by one device
};

/// A collective over the same link that shares no bucket: when it is started,
/// and how long it takes.
struct LinkUse {
  double time = 0, length = 0;
};

/// Picoseconds of a collective in which a device sends so many bytes.
using CollectiveClock = std::function<double(int64_t sent)>;

struct BucketChoice {
  std::vector<size_t> counts; // of items in each bucket, in order
  /// When the last bucket has ended, or, of gathers that are started ahead, for
  /// how long the computation stalls in all.
  double time = 0;
};

/// Buckets of items that follow each other in their link, which is free from
/// `freeFrom` on. A bucket begins when its last item is there, and those before
/// it have ended, and so have the `uses` of the link that were started before.
/// With e(j) the end of the first j items,
///
///   e(j) = min over i < j of max(e(i), time of item j - 1) + T(items i .. j-1)
///
/// is the least possible, since an earlier e(i) is never worse. Of choices that
/// end together the one with the fewest buckets is taken. No bucket holds more
/// than `most` bytes, except of one item. The uses are in the order of their
/// times.
BucketChoice chooseBuckets(std::span<const BucketItem> items, double freeFrom,
                           const CollectiveClock &clock, int64_t most,
                           std::span<const LinkUse> uses = {});

/// Buckets of gathers, each of which is started when the one before it is
/// needed, and needed when its first item is. With n(i) the time of item i, a
/// bucket i .. j after one that begins with item h stalls the computation for
///
///   max(0, T(items i .. j-1) - (n(i) - n(h))),
///
/// and the first one of all for T alone, less the time before it. The sum is
/// the least possible.
BucketChoice chooseGathers(std::span<const BucketItem> items,
                           const CollectiveClock &clock, int64_t most);

} // namespace polyrank::sharding
