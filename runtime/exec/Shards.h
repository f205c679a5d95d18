// Between a rank's shard of an argument and the tensor that the user's file
// stores.

#pragma once

#include "runtime/plan/PlanMesh.h"
#include "support/DType.h"
#include "support/Result.h"

#include <cstddef>
#include <functional>
#include <span>

namespace polyrank::runtime {

/// Which elements of a stored tensor make up a shard, and where each goes: the
/// element at index i is stored element storedBase + sum(i[d] * stored) and
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

/// The placement of `rank`'s shard of an argument that has a view.
Placement placementOf(const Mesh &mesh, int64_t rank,
                      const plan::Argument &argument);

/// The placement in a row-major tensor of the global shape, for blocks from
/// `firstDim` on: inputs and outputs have a microbatch and a batch before.
Placement placementIn(const std::vector<BlockDim> &blocks, size_t firstDim);

/// Reads bytes of a stored tensor, counted from its first.
using ReadBytes =
    std::function<Result<void>(uint64_t offset, void *into, uint64_t length)>;

/// Fills the shard from a tensor that is stored as `storedType`, converting it
/// to `type`; padding is left as it is. Reads little beyond what it needs.
Result<void> loadShard(const Placement &placement, DType storedType,
                       const ReadBytes &read, DType type, std::byte *shard);

/// Where the elements of a stored tensor are; `read` is empty where there are
/// none. A matrix may be held transposed: of `rows` x `columns` elements as the
/// model knows it, the other way round in the file. Both are 0 elsewhere.
struct StoredSource {
  DType dtype = DType::F32;
  ReadBytes read;
  int64_t rows = 0, columns = 0;
};

/// The same elements in the transpose of a `rows` x `columns` tensor. One
/// placement, unless a dim of the shard runs on from one row into the next:
/// then one for each row, and an error where they would be a million or more.
Result<std::vector<Placement>> transposed(const Placement &placement,
                                          int64_t rows, int64_t columns);

/// `loadShard` from a source that may be transposed.
Result<void> loadShard(const Placement &placement, const StoredSource &source,
                       DType type, std::byte *shard);

/// Copies those of the shard's elements, of `elementBytes` each, that are
/// elements [begin, end) of the stored tensor to their places in `window`, which
/// begins with the first of these. The time is that of what is copied.
void storeShardWithin(const Placement &placement, int64_t elementBytes,
                      const std::byte *shard, int64_t begin, int64_t end,
                      std::byte *window);

/// Copies elements of `elementBytes` from the shard into the tensor, or back.
void storeShard(const Placement &placement, int64_t elementBytes,
                const std::byte *shard, std::byte *tensor);
void fetchShard(const Placement &placement, int64_t elementBytes,
                const std::byte *tensor, std::byte *shard);

/// Sets all elements of a shard that exist to `value`.
void fillShard(const std::vector<BlockDim> &blocks, DType type, double value,
               std::byte *shard);

/// Is none of the elements that exist NaN or infinite?
bool isFiniteShard(const std::vector<BlockDim> &blocks, DType type,
                   const std::byte *shard);

/// May a stored tensor of one type fill an argument of the other? Floats
/// become floats and integers integers; anything else must be the same.
bool canLoad(DType stored, DType argument);

} // namespace polyrank::runtime
