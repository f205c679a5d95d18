// Which keys a block of queries sees, and the rows of its tiles.

#include "runtime/device/cpu/AttentionTiles.h"

#include "runtime/device/cpu/GemmTiles.h"
#include "support/Philox.h"

#include <cmath>

namespace polyrank::runtime {

/// The larger number; NaN if one is NaN.
static float larger(float x, float y) { return y > x || y != y ? y : x; }

const AttentionRows &attentionRows() {
  static const AttentionRows &best = []() -> const AttentionRows & {
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma"))
      return attentionRowsAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return attentionRowsAvx2;
    return attentionRowsBase;
  }();
  return best;
}

AttentionTiles::AttentionTiles(const AttentionShape &shape, const void *query,
                               const void *key, const float *bias,
                               const uint8_t *mask,
                               const AttentionCounters &counters)
    : shape(shape), rows(attentionRows()), blocks(shape.products, shape.type),
      query(query), key(key), bias(bias), mask(mask) {
  if (!shape.dropout)
    return;
  randomKey = polyrank::randomKey(shape.dropout->id, *counters.seed);
  step = static_cast<uint32_t>(*counters.step);
  microbatch = static_cast<uint32_t>(*counters.microbatch);
  limit = static_cast<uint64_t>(std::ceil(shape.dropout->rate * 0x1p32));
  for (size_t dim = 0; dim < 4; ++dim)
    if (counters.offsets[dim])
      firstElement += static_cast<uint64_t>(*counters.offsets[dim]) *
                      static_cast<uint64_t>(shape.dropout->strides[dim]);
}

Range AttentionTiles::seenBy(int64_t query) const {
  if (!shape.causal)
    return {0, shape.keys};
  int64_t end = query + shape.keys - shape.queries + 1;
  int64_t begin = shape.window && end > shape.window ? end - shape.window : 0;
  return {std::clamp<int64_t>(begin, 0, shape.keys),
          std::clamp<int64_t>(end, 0, shape.keys)};
}

RowKeys AttentionTiles::rowKeys(int64_t batch, int64_t head, int64_t query,
                                Range keys) const {
  Range seen = seenBy(query);
  RowKeys result{keys.size(),
                 std::clamp(seen.begin, keys.begin, keys.end) - keys.begin,
                 std::clamp(seen.end, keys.begin, keys.end) - keys.begin};
  auto offset = [&](const ScoreStrides &strides) {
    return batch * strides[0] + head * strides[1] + query * strides[2] +
           keys.begin * strides[3];
  };
  if (shape.bias) {
    result.bias = bias + offset(*shape.bias);
    result.hasOneBias = (*shape.bias)[3] == 0;
  }
  if (shape.mask) {
    result.mask = mask + offset(*shape.mask);
    result.hasOneMask = (*shape.mask)[3] == 0;
  }
  return result;
}

bool AttentionTiles::seesAny(int64_t batch, int64_t head, int64_t query) const {
  Range seen = seenBy(query);
  if (seen.isEmpty() || !shape.mask)
    return !seen.isEmpty();
  RowKeys keys = rowKeys(batch, head, query, seen);
  return std::any_of(keys.mask, keys.mask + (keys.hasOneMask ? 1 : keys.count),
                     [](uint8_t shows) { return shows != 0; });
}

RowDropout AttentionTiles::rowDropout(int64_t batch, int64_t head,
                                      int64_t query, Range keys) const {
  const ScoreStrides &strides = shape.dropout->strides;
  std::array<int64_t, 4> index{batch, head, query, keys.begin};
  uint64_t element = firstElement;
  for (size_t dim = 0; dim < 4; ++dim)
    element +=
        static_cast<uint64_t>(index[dim]) * static_cast<uint64_t>(strides[dim]);
  return {randomKey,  element, step,
          microbatch, limit,   static_cast<float>(1 - shape.dropout->rate)};
}

float AttentionTiles::largestBias(int64_t batch, int64_t head, Range queries,
                                  Range keys) const {
  float result = -INFINITY;
  if (keys.isEmpty())
    return result;
  int64_t count = (*shape.bias)[2] ? queries.size() : 1;
  for (int64_t row = 0; row < count; ++row) {
    RowKeys each = rowKeys(batch, head, queries.begin + row, keys);
    result = larger(result,
                    rows.largest(each.bias, each.hasOneBias ? 1 : each.count));
  }
  return result;
}

bool AttentionTiles::ignoresHidden(int64_t batch, int64_t head, Range queries,
                                   const float *largest) const {
  Range seen = seenBy(queries);
  if (shape.rules.masked == MaskedScores::Zero || seen.size() == shape.keys)
    return true;
  // exp of this number and of all below is 0.
  constexpr float vanishes = -104;
  bool adds = shape.rules.masked == MaskedScores::Add;
  float longestKey = 0, bias = 0;
  if (adds) {
    for (Range hidden : {Range{0, seen.begin}, Range{seen.end, shape.keys}})
      for (int64_t key = hidden.begin; key < hidden.end; ++key)
        longestKey = larger(
            longestKey, blocks.squareOf(keyAt(batch, head, key), shape.width));
    longestKey = std::sqrt(longestKey);
  }
  if (adds && shape.bias)
    bias = larger(largestBias(batch, head, queries, {0, seen.begin}),
                  largestBias(batch, head, queries, {seen.end, shape.keys}));
  for (int64_t row = 0; row < queries.size(); ++row) {
    float bound = shape.rules.fill;
    if (adds) {
      const std::byte *q = queryAt(batch, head, queries.begin + row);
      // By Cauchy and Schwarz, with room for roundings.
      float score = 1.01f * std::abs(shape.scale) * longestKey *
                    std::sqrt(blocks.squareOf(q, shape.width));
      if (shape.rules.softcap != 0 && score > shape.rules.softcap)
        score = 1.01f * shape.rules.softcap;
      bound += score + bias;
    }
    // Also false for NaN.
    if (!(bound - largest[row] <= vanishes))
      return false;
  }
  return true;
}

std::string describe(const AttentionShape &shape) {
  std::string text = std::to_string(shape.batch) + "x" +
                     std::to_string(shape.heads) + " heads, " +
                     std::to_string(shape.queries) + " queries, " +
                     std::to_string(shape.keys) + " keys of width " +
                     std::to_string(shape.width);
  if (shape.valueWidth != shape.width)
    text += ", values of width " + std::to_string(shape.valueWidth);
  if (shape.groups != shape.heads)
    text += ", " + std::to_string(shape.groups) + " heads of keys";
  return text;
}

bool isAttentionWorthATeam(const AttentionShape &shape) {
  return double(shape.batch) * double(shape.heads) * double(shape.queries) *
             double(shape.keys) * double(shape.width + shape.valueWidth) >=
         worthATeam;
}

Error attentionError(const AttentionShape &shape) {
  return {"attention of " + describe(shape) +
              ": oneDNN: the product of a tile failed",
          Error::Fault::Rank};
}

} // namespace polyrank::runtime
