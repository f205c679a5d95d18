// What attention and its gradient share: which keys a block of queries sees,
// and the rows of its tiles.

#pragma once

#include "runtime/device/cpu/Attention.h"

#include <algorithm>

namespace polyrank::runtime {

/// Consecutive queries or keys.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool isEmpty() const { return begin >= end; }
};

/// One call's sizes and addresses.
class AttentionTiles {
public:
  AttentionTiles(const AttentionShape &shape, const float *query,
                 const float *key, const float *bias, const uint8_t *mask,
                 const AttentionCounters &counters);

  int64_t countQueryBlocks() const {
    return (shape.queries - 1) / shape.blockQueries + 1;
  }
  int64_t countKeyBlocks() const {
    return (shape.keys - 1) / shape.blockKeys + 1;
  }
  Range queriesOf(int64_t block) const {
    return cut(block, shape.blockQueries, shape.queries);
  }
  Range keysOf(int64_t block) const {
    return cut(block, shape.blockKeys, shape.keys);
  }
  /// The distance of two rows of a tile, in floats.
  int64_t rowStride() const { return (shape.blockKeys + 15) / 16 * 16; }
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

  const float *queryAt(int64_t batch, int64_t head, int64_t row) const {
    return at(query, shape.query, batch, head, row);
  }
  const float *keyAt(int64_t batch, int64_t head, int64_t row) const {
    return at(key, shape.key, batch, groupOf(head), row);
  }
  template <typename T>
  static T *at(T *base, const RowStrides &strides, int64_t batch, int64_t head,
               int64_t row) {
    return base + batch * strides.batch + head * strides.head +
           row * strides.row;
  }

  /// Writes scale * q k^T of a tile. Returns whether oneDNN did it.
  bool multiply(int64_t batch, int64_t head, Range queries, Range keys,
                float *tile) const;
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

private:
  static Range cut(int64_t block, int64_t size, int64_t end) {
    return {block * size, std::min(end, (block + 1) * size)};
  }
  float largestBias(int64_t batch, int64_t head, Range queries,
                    Range keys) const;

  const float *query, *key, *bias;
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

/// Row-major C[m, n] = alpha op(A) op(B) + beta C, on the calling thread.
/// Returns whether oneDNN did it.
bool multiplyTile(bool transposeA, bool transposeB, int64_t m, int64_t n,
                  int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc);

/// Returns true if a call gains from more than one thread.
bool isAttentionWorthATeam(const AttentionShape &shape);

Error attentionError(const AttentionShape &shape);

} // namespace polyrank::runtime
