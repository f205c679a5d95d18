// What attention does to one row of a tile: scores, weights and slopes of one
// query over consecutive keys. The same source is compiled for several sets of
// vector instructions, all of which give the same bits.
//
// A row is 64-byte aligned and has room for a multiple of 16 floats.

#pragma once

#include <cstdint>

namespace polyrank::runtime {

/// What a key that a query does not see counts: nothing; its score and a number
/// that is added to it; or that number in place of its score.
enum class MaskedScores : uint8_t { Zero, Add, Replace };
inline constexpr int numMaskedScores = 3;

/// How products of queries and keys become scores.
struct ScoreRules {
  float softcap = 0; // 0: none
  MaskedScores masked = MaskedScores::Zero;
  float fill = 0;
};

/// The keys of a row.
struct RowKeys {
  int64_t count;      // in the tile
  int64_t begin, end; // those that the query sees, unless the mask hides them
  const float *bias = nullptr;                 // that of the first key
  const uint8_t *mask = nullptr;               // 0 hides
  bool hasOneBias = false, hasOneMask = false; // for all keys
};

/// Which weights of a row are dropped: those whose random word is less than
/// `limit`. The others are divided by `kept`.
struct RowDropout {
  uint64_t key;     // of the random numbers (support/Philox.h)
  uint64_t element; // the number of the row's first weight
  uint32_t step, microbatch;
  uint64_t limit;
  float kept;
};

/// What the gradient of a row needs of its query.
struct RowGradient {
  float lse, norm;       // the weights are norm * exp(score - lse)
  float delta;           // the sum of result times its gradient
  float *bias = nullptr; // is added to: one number for each key, or one for all
  bool hasOneBias = false;
};

/// Dropout may be null.
struct AttentionRows {
  /// Turns scaled products into scores, in place; the score of a key without
  /// weight is -infinity. Returns the largest score.
  float (*toScores)(float *row, const RowKeys &keys, const ScoreRules &rules);
  /// Turns scores into exp(score - shift), in place. Returns their sum. Then
  /// drops some of them.
  float (*toWeights)(float *row, const RowKeys &keys, const ScoreRules &rules,
                     float shift, const RowDropout *dropout);
  /// Turns scaled products into weights after dropout, and the gradients of
  /// these weights into those of the scaled products, both in place.
  void (*toSlopes)(float *row, float *gradients, const RowKeys &keys,
                   const ScoreRules &rules, const RowGradient &gradient,
                   const RowDropout *dropout);
  void (*scale)(float *values, int64_t count, float factor);
  float (*dot)(const float *x, const float *y, int64_t count);
  /// Returns the largest of all values; NaN if one of them is NaN.
  float (*largest)(const float *values, int64_t count);
};

extern const AttentionRows attentionRowsBase, attentionRowsAvx2,
    attentionRowsAvx512;

/// Returns those for the best vectors of this machine.
const AttentionRows &attentionRows();

} // namespace polyrank::runtime
