// A shard as boxes of the tensor that it is a part of.

#pragma once

#include "runtime/checkpoint/Box.h"
#include "runtime/exec/Placement.h"

namespace polyrank::runtime {

/// Elements of a shard that are a box of the stored tensor: that at index i of
/// the box is local element localBase + sum(i[d] * localStrides[d]).
struct LocalBox {
  Box box;
  int64_t localBase = 0;
  std::vector<int64_t> localStrides;
};

/// Disjoint boxes, together the placement's elements. A shard that is a range
/// of the tensor's elements, as ZeRO splits them, is a few of them; one that
/// has every other column is many. Fails where they would be a million or more.
Result<std::vector<LocalBox>> boxesOf(const Placement &placement,
                                      std::span<const int64_t> shape);

/// The elements that a box of a tensor and one of a shard have in common, as
/// the placement of these in the box, which is dense and row-major by itself.
Placement placementWithin(const Box &box, const LocalBox &local,
                          const Box &common);

} // namespace polyrank::runtime
