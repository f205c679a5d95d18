// Limits on the bytes in the buckets of collectives, by kind.

#pragma once

#include "dialects/sharding/Movement.h"
#include "support/Result.h"

#include <string_view>

namespace polyrank::sharding {

/// The largest size of a bucket, in bytes. The first bucket of gradients over
/// some axes holds at most `first` bytes too: it is full soon after the
/// backward has begun, and the others fill while it is reduced. (PyTorch's
/// DistributedDataParallel does the same: 1 MiB, then 25 MiB.)
struct BucketSizes {
  int64_t allReduce = 25 << 20, reduceScatter = 25 << 20, allGather = 25 << 20;
  int64_t first = 1 << 20;
  /// True if a clock chooses each bucket (BucketClock.h) and the sizes say
  /// nothing.
  bool areChosen = false;

  /// The limit for a movement of this kind, which must have buckets.
  int64_t get(MovementKind kind) const;
};

/// Parses sizes in MiB: `12.5` for all kinds,
/// `all-gather=50,reduce-scatter=12.5,first=2` for the named ones, or both,
/// `12.5,first=2`; or `auto`. The error says which part is wrong.
Result<BucketSizes> parseBucketSizes(std::string_view text);

} // namespace polyrank::sharding
