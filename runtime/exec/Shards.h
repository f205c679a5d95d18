// Copies between a rank's shard of an argument and the tensor that the user's
// file stores.

#pragma once

#include "runtime/exec/Placement.h"
#include "support/ElementType.h"
#include "support/Result.h"

#include <cstddef>
#include <functional>
#include <span>

namespace polyrank::runtime {

/// Reads bytes of a stored tensor; `offset` counts from its first byte.
using ReadBytes =
    std::function<Result<void>(uint64_t offset, void *into, uint64_t length)>;

/// Fills the shard from a tensor that is stored as `storedType`, converting it
/// to `type`; padding is left as it is. Reads little beyond what it needs.
Result<void> loadShard(const Placement &placement, ElementType storedType,
                       const ReadBytes &read, ElementType type,
                       std::byte *shard);

/// The source of a stored tensor's elements; `read` is empty if it has none. A
/// matrix may be stored transposed: it has `rows` x `columns` elements in the
/// model and `columns` x `rows` in the file. Otherwise both are 0.
struct StoredSource {
  ElementType dtype = ElementType::F32;
  ReadBytes read;
  int64_t rows = 0, columns = 0;
};

/// `loadShard` from a source that may be transposed.
Result<void> loadShard(const Placement &placement, const StoredSource &source,
                       ElementType type, std::byte *shard);

/// Copies the shard's elements, of `elementBytes` each, that are among elements
/// [begin, end) of the stored tensor to their places in `window`, which starts
/// at element `begin`. Takes time proportional to what is copied.
void storeShardWithin(const Placement &placement, int64_t elementBytes,
                      const std::byte *shard, int64_t begin, int64_t end,
                      std::byte *window);

/// Copies elements of `elementBytes` bytes from the shard into the tensor, or
/// back.
void storeShard(const Placement &placement, int64_t elementBytes,
                const std::byte *shard, std::byte *tensor);
void fetchShard(const Placement &placement, int64_t elementBytes,
                const std::byte *tensor, std::byte *shard);

/// Converts `count` elements. Floats are rounded to nearest even, those beyond
/// the range of `to` to infinity.
void convertElements(ElementType from, const std::byte *source, int64_t count,
                     ElementType to, std::byte *target);

/// Sets all elements of a shard, except padding, to `value`.
void fillShard(const std::vector<BlockDim> &blocks, ElementType type,
               double value, std::byte *shard);

/// Returns true if no element, except padding, is NaN or infinite.
bool isFiniteShard(const std::vector<BlockDim> &blocks, ElementType type,
                   const std::byte *shard);

/// Returns true if no finite element of a shard of floats, except padding,
/// becomes infinite when it is rounded to the float type `to`.
bool isWithinShard(ElementType to, const std::vector<BlockDim> &blocks,
                   ElementType type, const std::byte *shard);

/// Returns true if a stored tensor of one type may fill an argument of the
/// other: floats convert to floats and integers to integers; other types must
/// be equal.
bool canLoad(ElementType stored, ElementType argument);

} // namespace polyrank::runtime
