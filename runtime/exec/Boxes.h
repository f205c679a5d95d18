// A shard as a set of boxes of its tensor.

#pragma once

#include "runtime/checkpoint/Box.h"
#include "runtime/exec/Placement.h"

namespace polyrank::runtime {

/// Elements of a shard that form a box of the stored tensor. The element at
/// index i of the box is local element localBase + sum(i[d] * localStrides[d]).
struct LocalBox {
  Box box;
  int64_t localBase = 0;
  std::vector<int64_t> localStrides;
};

/// Returns disjoint boxes that together are the placement's elements. A shard
/// that is a range of the tensor's elements, as ZeRO splits them, is a few
/// boxes; one with every other column is many. Fails if there would be a
/// million or more.
Result<std::vector<LocalBox>> boxesOf(const Placement &placement,
                                      std::span<const int64_t> shape);

/// Returns the placement of `common`, the intersection of a box of a tensor and
/// a box of a shard, where `box` is stored as a dense row-major tensor of its
/// own.
Placement placementWithin(const Box &box, const LocalBox &local,
                          const Box &common);

} // namespace polyrank::runtime
