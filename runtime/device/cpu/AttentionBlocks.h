// Blocks of rows of attention's tensors as the products of tiles read them, and
// these products. Elements of f32 are multiplied where they lie, by oneDNN's
// sgemm. Those of bf16 and f16 are copied into scratch: widened to f32 for the
// same function, or packed in pairs for products of bf16.

#pragma once

#include "runtime/device/cpu/PairProducts.h"
#include "runtime/plan/TileProducts.h"
#include "support/ElementType.h"

#include <cstddef>

namespace polyrank::runtime {

/// How the products of tiles are computed: of f32; of bf16, with sums in f32;
/// or of bf16 or f16 that are widened to f32 first.
enum class TileProducts : uint8_t { Float32, BFloat16, Widened };
inline constexpr int numTileProducts = 3;

constexpr const char *nameOf(TileProducts products) {
  switch (products) {
  case TileProducts::Float32:
    return "float32";
  case TileProducts::BFloat16:
    return "bfloat16";
  case TileProducts::Widened:
    return "widened";
  }
  return "unknown";
}

/// Returns true if this machine has such products. Those of bf16 need the
/// instruction for it, and oneDNN to use it as well: a run that keeps oneDNN
/// from it (ONEDNN_MAX_CPU_ISA=AVX2) computes without it everywhere.
bool hasTileProducts(TileProducts products);

/// The parts of a thread's scratch, one after the other. Without memory, it
/// only counts.
class ScratchParts {
public:
  explicit ScratchParts(void *memory)
      : memory(static_cast<std::byte *>(memory)) {}

  /// A part behind the last one, which the alignment of T suffices for.
  template <typename T>
  T *take(int64_t count) {
    T *part = memory ? reinterpret_cast<T *>(memory + used) : nullptr;
    used += count * sizeof(T);
    return part;
  }
  /// A part that begins at a multiple of 64 bytes.
  template <typename T>
  T *takeAligned(int64_t count) {
    used = (used + 63) / 64 * 64;
    return take<T>(count);
  }
  uint64_t bytes() const { return used; }

private:
  std::byte *memory;
  uint64_t used = 0;
};

/// The places that a block takes in products: the left factor of a product with
/// other rows; the right factor of such a product, transposed; or the right
/// factor of a sum over its rows.
struct BlockUses {
  bool isLeft = false, isTransposed = false, isSummed = false;
};

/// Scratch for the copies of a block. Empty for f32.
struct BlockScratch {
  float *floats = nullptr;
  Pair *left = nullptr, *transposed = nullptr, *summed = nullptr;
};

/// Rows [rows, width] of a tensor.
struct AttentionBlock {
  const float *floats = nullptr; // of f32 and widened rows
  int64_t stride = 0;            // of floats
  LeftPairs left;
  RightPairs transposed, summed;
};

/// A tile [queries, keys] of weights or slopes as the left factor of sums over
/// its keys, or over its queries.
struct TileFactor {
  const float *floats = nullptr;
  int64_t stride = 0;
  LeftPairs rows, columns;
};

/// The products of one call.
class AttentionBlocks {
public:
  AttentionBlocks(TileProducts products, ElementType type)
      : products(products), type(type) {}

  /// True if results are summed up in scratch and rounded from there.
  bool isNarrow() const { return products != TileProducts::Float32; }

  /// Scratch for a block of at most `rows` rows.
  BlockScratch take(ScratchParts &parts, int64_t rows, int64_t width,
                    BlockUses uses) const;
  /// Scratch for the roundings of a tile. `byRows` and `byColumns` say whose
  /// sums they are factors of.
  BlockScratch takeTile(ScratchParts &parts, int64_t queries, int64_t keys,
                        bool byRows, bool byColumns) const;

  /// The block whose rows begin at `from` and are `stride` elements apart.
  AttentionBlock load(const std::byte *from, int64_t stride, int64_t rows,
                      int64_t width, const BlockScratch &scratch) const;
  /// The tile at `tile`, whose rows are `stride` floats apart. Products of bf16
  /// round it.
  TileFactor round(const float *tile, int64_t stride, int64_t queries,
                   int64_t keys, const BlockScratch &scratch) const;

  // Each product returns whether oneDNN did it.

  /// Writes factor * left right^T of `queries` rows of the left block and
  /// `keys` rows of the right one, of which there may be more.
  bool multiplyRows(int64_t queries, int64_t keys, int64_t width, float factor,
                    const AttentionBlock &left, const AttentionBlock &right,
                    float *tile, int64_t stride) const;
  /// Writes, or adds if `adds`, factor * tile block.
  bool sumOverKeys(int64_t queries, int64_t keys, int64_t width, float factor,
                   const TileFactor &tile, const AttentionBlock &block,
                   bool adds, float *to, int64_t stride) const;
  /// Adds factor * tile^T block.
  bool sumOverQueries(int64_t queries, int64_t keys, int64_t width,
                      float factor, const TileFactor &tile,
                      const AttentionBlock &block, float *to,
                      int64_t stride) const;

  /// The elements of a row as floats: where they lie, or widened in `buffer`.
  const float *readRow(const std::byte *from, int64_t width,
                       float *buffer) const;
  /// Rounds sums to a row of the result. Requires isNarrow().
  void writeRow(const float *sums, int64_t width, std::byte *to) const;
  /// The sum of the squares of a row's elements.
  float squareOf(const std::byte *from, int64_t width) const;

private:
  TileProducts products;
  ElementType type;
};

} // namespace polyrank::runtime
