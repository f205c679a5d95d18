// The elements of a stored tensor that make up a rank's shard.

#pragma once

#include "runtime/plan/PlanMesh.h"
#include "support/Result.h"

#include <cstdint>
#include <vector>

namespace polyrank::runtime {

/// The elements of a stored tensor that make up a shard, and the place of each.
/// The element at index i is stored element storedBase + sum(i[d] * stored) and
/// local element localBase + sum(i[d] * local). Strides in elements; `stored`
/// is never negative and does not grow from dim to dim. Padding is left out.
struct Placement {
  struct Extent {
    int64_t count, stored, local;
  };
  int64_t storedBase = 0, localBase = 0;
  std::vector<Extent> extents;
  bool empty = false; // the shard is all padding

  int64_t elements() const;
};

/// Sorts the extents by stored stride, drops those of count 1, and merges
/// neighbours that form one arithmetic progression on both sides.
void simplify(Placement &placement);

/// The placement of `rank`'s shard of an argument that has a view.
Placement placementOf(const Mesh &mesh, int64_t rank,
                      const plan::Argument &argument);

/// The same for a part of such a shard, whose dims are `blocks`.
Placement placementOf(const std::vector<BlockDim> &blocks,
                      const plan::View &view);

/// A part of a shard that is contiguous in memory: all of its dims but one are
/// whole.
struct ShardPiece {
  std::vector<BlockDim> blocks;
  uint64_t offset = 0, bytes = 0; // in the shard
};

/// Cuts a shard of these blocks and this size of elements into pieces of at
/// most `mostBytes` where one row of its outermost dim of several elements has
/// no more.
inline constexpr uint64_t uploadedBytes = 64 << 20;
std::vector<ShardPiece> piecesOf(const std::vector<BlockDim> &blocks,
                                 int64_t elementBytes,
                                 uint64_t mostBytes = uploadedBytes);

/// The placement in a row-major tensor of the global shape, of the blocks from
/// dim `firstDim` on: inputs and outputs have a microbatch and a batch dim
/// before it.
Placement placementIn(const std::vector<BlockDim> &blocks, size_t firstDim);

/// Returns the same elements in the transpose of a `rows` x `columns` tensor.
/// This is one placement, unless a dim of the shard crosses from one row into
/// the next: then it is one for each row, and an error if there would be a
/// million or more.
Result<std::vector<Placement>> transposed(const Placement &placement,
                                          int64_t rows, int64_t columns);

/// Calls body(stored, local, count) for each innermost run of the placement.
template <typename Body>
void forEachRun(const std::vector<Placement::Extent> &extents, size_t dim,
                int64_t stored, int64_t local, const Body &body) {
  if (dim == extents.size())
    return body(stored, local, Placement::Extent{1, 1, 1});
  const Placement::Extent &extent = extents[dim];
  if (dim + 1 == extents.size())
    return body(stored, local, extent);
  for (int64_t i = 0; i < extent.count; ++i)
    forEachRun(extents, dim + 1, stored + i * extent.stored,
               local + i * extent.local, body);
}

} // namespace polyrank::runtime
