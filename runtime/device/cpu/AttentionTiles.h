// What attention and its gradient share: which keys a block of queries sees,
// and the rows of its tiles.

#pragma once

#include "runtime/device/cpu/Attention.h"

#include <algorithm>

namespace polyrank::runtime {

/// Consecutive queries or keys.
struct Range {
  int64_t begin = 0, end = 0;
  bool operator==(const Range &) const = default;
  int64_t size() const { return end - begin; }
  bool isEmpty() const { return begin >= end; }
};

inline int64_t countQueryBlocks(const AttentionShape &shape) {
  return (shape.queries - 1) / shape.blockQueries + 1;
}
inline int64_t countKeyBlocks(const AttentionShape &shape) {
  return (shape.keys - 1) / shape.blockKeys + 1;
}
/// The distance of two rows of a tile, in floats.
inline int64_t rowStrideOf(const AttentionShape &shape) {
  return (shape.blockKeys + 15) / 16 * 16;
}

/// One call's sizes and addresses.
class AttentionTiles {
public:
  AttentionTiles(const AttentionShape &shape, const void *query,
                 const void *key, const float *bias, const uint8_t *mask,
                 const AttentionCounters &counters);

  int64_t countQueryBlocks() const { return runtime::countQueryBlocks(shape); }
  Range queriesOf(int64_t block) const {
    return cut(block, shape.blockQueries, shape.queries);
  }
  Range keysOf(int64_t block) const {
    return cut(block, shape.blockKeys, shape.keys);
  }
  int64_t rowStride() const { return rowStrideOf(shape); }
  int64_t groupOf(int64_t head) const {
    return head / (shape.heads / shape.groups);
  }

  /// The keys that `query` sees, as far as causal and window say.
  Range seenBy(int64_t query) const;
  /// The keys from the first that any of `queries` sees to the last.
  Range seenBy(Range queries) const {
    Range first = seenBy(queries.begin), last = seenBy(queries.end - 1);
    return {first.begin, std::max(first.begin, last.end)};
  }
  /// Returns true if `query` sees a key, the mask included.
  bool seesAny(int64_t batch, int64_t head, int64_t query) const;

  const std::byte *queryAt(int64_t batch, int64_t head, int64_t row) const {
    return at(query, shape.query, batch, head, row);
  }
  const std::byte *keyAt(int64_t batch, int64_t head, int64_t row) const {
    return at(key, shape.key, batch, groupOf(head), row);
  }
  /// Row `row` of a tensor of the shape's type.
  /// @{
  const std::byte *at(const void *base, const RowStrides &strides,
                      int64_t batch, int64_t head, int64_t row) const {
    return static_cast<const std::byte *>(base) +
           (batch * strides.batch + head * strides.head + row * strides.row) *
               bytesOf(shape.type);
  }
  std::byte *at(void *base, const RowStrides &strides, int64_t batch,
                int64_t head, int64_t row) const {
    return const_cast<std::byte *>(
        at(const_cast<const void *>(base), strides, batch, head, row));
  }
  /// @}

  RowKeys rowKeys(int64_t batch, int64_t head, int64_t query, Range keys) const;
  RowDropout rowDropout(int64_t batch, int64_t head, int64_t query,
                        Range keys) const;

  /// Returns true if keys that are hidden by causal and window have a weight of
  /// exactly 0 for all `queries`, given a number for each that is at most its
  /// largest score, or its lse. Such keys need not be visited.
  bool ignoresHidden(int64_t batch, int64_t head, Range queries,
                     const float *largest) const;

  const AttentionShape &shape;
  const AttentionRows &rows;
  const AttentionBlocks blocks;

private:
  static Range cut(int64_t block, int64_t size, int64_t end) {
    return {block * size, std::min(end, (block + 1) * size)};
  }
  float largestBias(int64_t batch, int64_t head, Range queries,
                    Range keys) const;

  const void *query, *key;
  const float *bias;
  const uint8_t *mask;
  uint64_t randomKey = 0, firstElement = 0, limit = 0;
  uint32_t step = 0, microbatch = 0;
};

/// Calls visit(keys) for each part of `keys` that is in one block of keys.
/// Returns whether all calls did.
template <typename Visit>
bool forEachTile(Range keys, int64_t blockKeys, Visit visit) {
  for (int64_t begin = keys.begin, end; begin < keys.end; begin = end) {
    end = std::min(keys.end, (begin / blockKeys + 1) * blockKeys);
    if (!visit(Range{begin, end}))
      return false;
  }
  return true;
}

/// Returns true if a call gains from more than one thread.
bool isAttentionWorthATeam(const AttentionShape &shape);

Error attentionError(const AttentionShape &shape);

} // namespace polyrank::runtime
