// Packing and products of pairs of bf16. This file alone is compiled for
// avx512_bf16: every function that it does not export is local to it.

#include "runtime/device/cpu/PairProducts.h"

#include <immintrin.h>

namespace polyrank::runtime {
namespace {

constexpr int64_t lanes = 16, panel = 64;
/// The rows of C whose sums are in registers at once, with a panel's columns:
/// 24 sums, a row of B in 4 registers and a pair of A.
constexpr int mostRows = 6, mostVectors = panel / lanes;
/// The pairs of a piece of the inner dim, whose part of a panel stays in the
/// first cache while all rows pass by.
constexpr int64_t mostPairs = 96;

__mmask16 firstLanes(int64_t count) {
  return count >= lanes ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
}

/// Up to 16 elements, widened to 32 bits; zeros after them.
__m512i loadElements(const uint16_t *from, int64_t count) {
  return _mm512_cvtepu16_epi32(
      _mm256_maskz_loadu_epi16(firstLanes(count), from));
}

/// The bits of bfloat16FromFloat, in the upper halves.
__m512i roundUpper(__m512 value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded =
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  __mmask16 isNan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  rounded =
      _mm512_mask_or_epi32(rounded, isNan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_and_si512(rounded,
                          _mm512_set1_epi32(static_cast<int>(0xffff0000)));
}
__m512i loadRounded(const float *from, __mmask16 mask) {
  return roundUpper(_mm512_maskz_loadu_ps(mask, from));
}

/// Transposes 16 x 16 elements of 32 bits.
void transpose(__m512i rows[16]) {
  __m512i other[16];
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm512_unpacklo_epi64(other[i + j], other[i + j + 2]);
      rows[i + 2 * j + 1] =
          _mm512_unpackhi_epi64(other[i + j], other[i + j + 2]);
    }
  // Now lane l of rows[4 i + j] has column 4 l + j of rows 4 i to 4 i + 3.
  for (int j = 0; j < 4; ++j) {
    __m512i low01 = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x44);
    __m512i high01 = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xee);
    __m512i low23 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x44);
    __m512i high23 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xee);
    other[j] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    other[4 + j] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    other[8 + j] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    other[12 + j] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
  for (int i = 0; i < 16; ++i)
    rows[i] = other[i];
}

/// Where a right factor of `pairs` pairs has the pairs of a column, and how far
/// apart they are.
struct Column {
  int64_t first, step;
};
Column columnOf(int64_t column, int64_t columns, int64_t pairs) {
  int64_t begin = column / panel * panel;
  int64_t padded = (columns + lanes - 1) / lanes * lanes;
  int64_t width = padded - begin < panel ? padded - begin : panel;
  return {begin * pairs + column - begin, width};
}

/// C's block of `rows` rows and `vectors` vectors of columns.
template <int rows, int vectors>
void multiplyBlock(int64_t pairs, float alpha, const Pair *a, int64_t aRow,
                   int64_t aPair, const Pair *b, int64_t bStep, bool adds,
                   float *c, int64_t ldc, __mmask16 last) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      sums[i][j] = _mm512_setzero_ps();
  for (int64_t p = 0; p < pairs; ++p) {
    __m512i right[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      right[j] = _mm512_loadu_si512(b + p * bStep + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      __m512i left =
          _mm512_set1_epi32(static_cast<int>(a[i * aRow + p * aPair]));
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j)
        sums[i][j] =
            _mm512_dpbf16_ps(sums[i][j], (__m512bh)left, (__m512bh)right[j]);
    }
  }
  __m512 factor = _mm512_set1_ps(alpha);
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      __mmask16 mask = j == vectors - 1 ? last : 0xffff;
      float *to = c + i * ldc + j * lanes;
      __m512 before =
          adds ? _mm512_maskz_loadu_ps(mask, to) : _mm512_setzero_ps();
      _mm512_mask_storeu_ps(to, mask,
                            _mm512_fmadd_ps(sums[i][j], factor, before));
    }
}

using Block = void (*)(int64_t, float, const Pair *, int64_t, int64_t,
                       const Pair *, int64_t, bool, float *, int64_t,
                       __mmask16);
template <int rows>
constexpr Block rowOf[mostVectors] = {
    multiplyBlock<rows, 1>, multiplyBlock<rows, 2>, multiplyBlock<rows, 3>,
    multiplyBlock<rows, 4>};
constexpr const Block *blocks[mostRows] = {rowOf<1>, rowOf<2>, rowOf<3>,
                                           rowOf<4>, rowOf<5>, rowOf<6>};

} // namespace

LeftPairs packLeft(const uint16_t *from, int64_t stride, int64_t rows,
                   int64_t columns, Pair *to) {
  int64_t pairs = countPairs(columns);
  for (int64_t i = 0; i < rows; ++i) {
    to[i * pairs + pairs - 1] = 0;
    __builtin_memcpy(to + i * pairs, from + i * stride,
                     columns * sizeof(uint16_t));
  }
  return {to, pairs, 1};
}

RightPairs packRight(const uint16_t *from, int64_t stride, int64_t rows,
                     int64_t columns, Pair *to) {
  int64_t pairs = countPairs(rows);
  for (int64_t j = 0; j < columns; j += lanes) {
    auto [first, step] = columnOf(j, columns, pairs);
    for (int64_t p = 0; p < pairs; ++p) {
      const uint16_t *low = from + 2 * p * stride + j;
      __m512i upper = 2 * p + 1 < rows ? loadElements(low + stride, columns - j)
                                       : _mm512_setzero_si512();
      _mm512_storeu_si512(to + first + p * step,
                          _mm512_or_si512(loadElements(low, columns - j),
                                          _mm512_slli_epi32(upper, 16)));
    }
  }
  return {to, columns, pairs};
}

RightPairs packTransposed(const uint16_t *from, int64_t stride, int64_t rows,
                          int64_t columns, Pair *to) {
  int64_t pairs = countPairs(columns);
  for (int64_t j = 0; j < rows; j += lanes) {
    auto [first, step] = columnOf(j, rows, pairs);
    for (int64_t p = 0; p < pairs; p += lanes) {
      int64_t elements = columns - 2 * p;
      __mmask32 mask =
          elements >= 2 * lanes ? 0xffffffff : (uint32_t(1) << elements) - 1;
      __m512i words[lanes];
      for (int64_t i = 0; i < lanes; ++i)
        words[i] = j + i < rows ? _mm512_maskz_loadu_epi16(
                                      mask, from + (j + i) * stride + 2 * p)
                                : _mm512_setzero_si512();
      transpose(words);
      for (int64_t i = 0; i < lanes && p + i < pairs; ++i)
        _mm512_storeu_si512(to + first + (p + i) * step, words[i]);
    }
  }
  return {to, rows, pairs};
}

LeftPairs roundLeft(const float *from, int64_t stride, int64_t rows,
                    int64_t columns, Pair *to) {
  int64_t pairs = countPairs(columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += lanes) {
      __m512i rounded =
          loadRounded(from + i * stride + j, firstLanes(columns - j));
      _mm256_mask_storeu_epi32(
          to + i * pairs + j / 2,
          static_cast<__mmask8>(firstLanes(pairs - j / 2)),
          _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
    }
  return {to, pairs, 1};
}

LeftPairs roundTransposed(const float *from, int64_t stride, int64_t rows,
                          int64_t columns, Pair *to) {
  for (int64_t p = 0; p < countPairs(rows); ++p)
    for (int64_t j = 0; j < columns; j += lanes) {
      __mmask16 mask = firstLanes(columns - j);
      const float *low = from + 2 * p * stride + j;
      __m512i upper = 2 * p + 1 < rows ? loadRounded(low + stride, mask)
                                       : _mm512_setzero_si512();
      _mm512_mask_storeu_epi32(
          to + p * columns + j, mask,
          _mm512_or_si512(_mm512_srli_epi32(loadRounded(low, mask), 16),
                          upper));
    }
  return {to, 1, columns};
}

void multiplyPairs(int64_t m, int64_t n, int64_t pairs, float alpha,
                   const LeftPairs &a, const RightPairs &b, bool adds, float *c,
                   int64_t ldc) {
  for (int64_t j = 0; j < n; j += panel) {
    auto [first, step] = columnOf(j, b.columns, b.pairs);
    int64_t columns = n - j < panel ? n - j : panel;
    int64_t vectors = (columns + lanes - 1) / lanes;
    __mmask16 last = firstLanes(columns - (vectors - 1) * lanes);
    for (int64_t p = 0; p < pairs; p += mostPairs) {
      int64_t count = pairs - p < mostPairs ? pairs - p : mostPairs;
      for (int64_t i = 0; i < m; i += mostRows) {
        int64_t rows = m - i < mostRows ? m - i : mostRows;
        blocks[rows - 1][vectors - 1](
            count, alpha, a.data + i * a.row + p * a.pair, a.row, a.pair,
            b.data + first + p * step, step, adds || p > 0, c + i * ldc + j,
            ldc, last);
      }
    }
  }
}

} // namespace polyrank::runtime
