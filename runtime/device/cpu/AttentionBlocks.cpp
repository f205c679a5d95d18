// Blocks of rows, widened or packed, and the products of tiles.

#include "runtime/device/cpu/AttentionBlocks.h"

#include "runtime/device/cpu/AttentionRows.h"
#include "runtime/device/cpu/Gemm.h"
#include "runtime/device/cpu/NarrowRows.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.h>

namespace polyrank::runtime {

/// Row-major C[m, n] = alpha op(A) op(B) + beta C, on the calling thread.
static bool multiplyFloats(bool transposeA, bool transposeB, int64_t m,
                           int64_t n, int64_t k, float alpha, const float *a,
                           int64_t lda, const float *b, int64_t ldb, float beta,
                           float *c, int64_t ldc) {
  return dnnl_sgemm(transposeA ? 'T' : 'N', transposeB ? 'T' : 'N', m, n, k,
                    alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}

static const uint16_t *elementsAt(const std::byte *from) {
  return reinterpret_cast<const uint16_t *>(from);
}

bool hasTileProducts(TileProducts products) {
  if (products != TileProducts::BFloat16)
    return true;
  static const bool has = &attentionRows() == &attentionRowsAvx512 &&
                          __builtin_cpu_supports("avx512bf16") &&
                          hasNarrowMatmul(ElementType::BF16, ElementType::F32);
  return has;
}

BlockScratch AttentionBlocks::take(ScratchParts &parts, int64_t rows,
                                   int64_t width, BlockUses uses) const {
  BlockScratch scratch;
  if (products == TileProducts::Widened)
    scratch.floats = parts.takeAligned<float>(rows * width);
  if (products != TileProducts::BFloat16)
    return scratch;
  if (uses.isLeft)
    scratch.left = parts.takeAligned<Pair>(rows * countPairs(width));
  if (uses.isTransposed)
    scratch.transposed = parts.takeAligned<Pair>(countRightPairs(rows, width));
  if (uses.isSummed)
    scratch.summed = parts.takeAligned<Pair>(countRightPairs(width, rows));
  return scratch;
}

BlockScratch AttentionBlocks::takeTile(ScratchParts &parts, int64_t queries,
                                       int64_t keys, bool byRows,
                                       bool byColumns) const {
  BlockScratch scratch;
  if (products != TileProducts::BFloat16)
    return scratch;
  if (byRows)
    scratch.left = parts.takeAligned<Pair>(queries * countPairs(keys));
  if (byColumns)
    scratch.transposed = parts.takeAligned<Pair>(countPairs(queries) * keys);
  return scratch;
}

AttentionBlock AttentionBlocks::load(const std::byte *from, int64_t stride,
                                     int64_t rows, int64_t width,
                                     const BlockScratch &scratch) const {
  AttentionBlock block;
  switch (products) {
  case TileProducts::Float32:
    block.floats = reinterpret_cast<const float *>(from);
    block.stride = stride;
    break;
  case TileProducts::Widened:
    for (int64_t row = 0; row < rows; ++row)
      narrowRows().widen(type, elementsAt(from) + row * stride,
                         scratch.floats + row * width, width);
    block.floats = scratch.floats, block.stride = width;
    break;
  case TileProducts::BFloat16:
    const uint16_t *elements = elementsAt(from);
    if (scratch.left)
      block.left = packLeft(elements, stride, rows, width, scratch.left);
    if (scratch.transposed)
      block.transposed =
          packTransposed(elements, stride, rows, width, scratch.transposed);
    if (scratch.summed)
      block.summed = packRight(elements, stride, rows, width, scratch.summed);
    break;
  }
  return block;
}

TileFactor AttentionBlocks::round(const float *tile, int64_t stride,
                                  int64_t queries, int64_t keys,
                                  const BlockScratch &scratch) const {
  TileFactor factor;
  if (products != TileProducts::BFloat16) {
    factor.floats = tile, factor.stride = stride;
    return factor;
  }
  if (scratch.left)
    factor.rows = roundLeft(tile, stride, queries, keys, scratch.left);
  if (scratch.transposed)
    factor.columns =
        roundTransposed(tile, stride, queries, keys, scratch.transposed);
  return factor;
}

bool AttentionBlocks::multiplyRows(int64_t queries, int64_t keys, int64_t width,
                                   float factor, const AttentionBlock &left,
                                   const AttentionBlock &right, float *tile,
                                   int64_t stride) const {
  if (products != TileProducts::BFloat16)
    return multiplyFloats(false, true, queries, keys, width, factor,
                          left.floats, left.stride, right.floats, right.stride,
                          0, tile, stride);
  multiplyPairs(queries, keys, countPairs(width), factor, left.left,
                right.transposed, /*adds=*/false, tile, stride);
  return true;
}

bool AttentionBlocks::sumOverKeys(int64_t queries, int64_t keys, int64_t width,
                                  float factor, const TileFactor &tile,
                                  const AttentionBlock &block, bool adds,
                                  float *to, int64_t stride) const {
  if (products != TileProducts::BFloat16)
    return multiplyFloats(false, false, queries, width, keys, factor,
                          tile.floats, tile.stride, block.floats, block.stride,
                          adds ? 1 : 0, to, stride);
  multiplyPairs(queries, width, countPairs(keys), factor, tile.rows,
                block.summed, adds, to, stride);
  return true;
}

bool AttentionBlocks::sumOverQueries(int64_t queries, int64_t keys,
                                     int64_t width, float factor,
                                     const TileFactor &tile,
                                     const AttentionBlock &block, float *to,
                                     int64_t stride) const {
  if (products != TileProducts::BFloat16)
    return multiplyFloats(true, false, keys, width, queries, factor,
                          tile.floats, tile.stride, block.floats, block.stride,
                          1, to, stride);
  multiplyPairs(keys, width, countPairs(queries), factor, tile.columns,
                block.summed, /*adds=*/true, to, stride);
  return true;
}

const float *AttentionBlocks::readRow(const std::byte *from, int64_t width,
                                      float *buffer) const {
  if (!isNarrow())
    return reinterpret_cast<const float *>(from);
  narrowRows().widen(type, from, buffer, width);
  return buffer;
}

void AttentionBlocks::writeRow(const float *sums, int64_t width,
                               std::byte *to) const {
  narrowRows().round(type, sums, to, width);
}

float AttentionBlocks::squareOf(const std::byte *from, int64_t width) const {
  if (!isNarrow()) {
    auto *row = reinterpret_cast<const float *>(from);
    return attentionRows().dot(row, row, width);
  }
  constexpr int64_t most = 256;
  float piece[most], sum = 0;
  for (int64_t i = 0; i < width; i += most) {
    int64_t count = std::min(most, width - i);
    readRow(from + i * bytesOf(type), count, piece);
    sum += attentionRows().dot(piece, piece, count);
  }
  return sum;
}

} // namespace polyrank::runtime
