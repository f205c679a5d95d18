// Products of bf16 with sums in f32, by the instruction that multiplies pairs
// (avx512_bf16). It adds two products to each sum, so that all matrices are
// stored as pairs of elements that are neighbours in the inner dim. The
// instruction takes denormal numbers for zero.
//
// Everything here needs a machine with these instructions
// (hasTileProducts, AttentionBlocks.h).

#pragma once

#include <cstdint>

namespace polyrank::runtime {

/// Two elements of bf16 that are neighbours in the inner dim, the first one in
/// the lower half. If the inner dim is odd, the last pair's upper half is 0.
using Pair = uint32_t;

constexpr int64_t countPairs(int64_t elements) { return (elements + 1) / 2; }

/// The left factor A[m, k]: pair p of row i is data[i * row + p * pair].
struct LeftPairs {
  const Pair *data = nullptr;
  int64_t row = 0, pair = 0;
};

/// The right factor B[k, n], in panels of 64 columns, the last of which may
/// have fewer: panel after panel, in each pair after pair, in each column after
/// column. The columns are filled up with zeros to a multiple of 16.
struct RightPairs {
  const Pair *data = nullptr;
  int64_t columns = 0, pairs = 0;
};

/// The number of pairs in which a right factor is stored.
constexpr int64_t countRightPairs(int64_t columns, int64_t inner) {
  return (columns + 15) / 16 * 16 * countPairs(inner);
}

/// A[rows, columns] from rows that are `stride` elements apart; `to` has rows *
/// countPairs(columns) pairs.
LeftPairs packLeft(const uint16_t *from, int64_t stride, int64_t rows,
                   int64_t columns, Pair *to);
/// B[rows, columns] from such rows.
RightPairs packRight(const uint16_t *from, int64_t stride, int64_t rows,
                     int64_t columns, Pair *to);
/// The right factor that is the transpose [columns, rows] of such rows.
RightPairs packTransposed(const uint16_t *from, int64_t stride, int64_t rows,
                          int64_t columns, Pair *to);

/// A[rows, columns] of floats, each rounded to bf16 as support/Float16.h does;
/// `to` has rows * countPairs(columns) pairs.
LeftPairs roundLeft(const float *from, int64_t stride, int64_t rows,
                    int64_t columns, Pair *to);
/// The left factor that is the transpose [columns, rows] of such floats; `to`
/// has countPairs(rows) * columns pairs.
LeftPairs roundTransposed(const float *from, int64_t stride, int64_t rows,
                          int64_t columns, Pair *to);

/// Row-major C[m, n] = alpha A B, or C + alpha A B if `adds`. The inner dim has
/// `pairs` pairs. A and B may have more rows, columns and pairs, which are not
/// read. The order of sums depends on `pairs` alone.
void multiplyPairs(int64_t m, int64_t n, int64_t pairs, float alpha,
                   const LeftPairs &a, const RightPairs &b, bool adds, float *c,
                   int64_t ldc);

} // namespace polyrank::runtime
