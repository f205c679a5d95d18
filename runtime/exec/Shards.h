// Between a rank's shard of an argument and the tensor that the user's file
// stores.

#pragma once

#include "runtime/exec/Placement.h"
#include "support/DType.h"
#include "support/Result.h"

#include <cstddef>
#include <functional>
#include <span>

namespace polyrank::runtime {

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

/// `loadShard` from a source that may be transposed.
Result<void> loadShard(const Placement &placement, const StoredSource &source,
                       DType type, std::byte *shard);

/// Copies those of the shard's elements, of `elementBytes` each, that are
/// elements [begin, end) of the stored tensor to their places in `window`,
/// which begins with the first of these. The time is that of what is copied.
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
