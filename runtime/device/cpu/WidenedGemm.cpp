// Products of bf16 and f16 in f32, block by block.

#include "runtime/device/cpu/WidenedGemm.h"

#include "runtime/device/cpu/NarrowRows.h"
#include "runtime/device/cpu/TiledGemm.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.h>

namespace polyrank::runtime {
namespace {

/// The sides of a block. Each element that is widened serves in at least as
/// many sums as the other factor's block has columns or rows.
constexpr int64_t mostRows = 256, mostColumns = 768, mostTerms = 768;

constexpr int64_t bytesOfNarrow = 2;
static_assert(bytesOf(ElementType::BF16) == bytesOfNarrow &&
              bytesOf(ElementType::F16) == bytesOfNarrow);

uint64_t floatBytes(int64_t rows, int64_t columns) {
  return (rows * columns * sizeof(float) + 63) / 64 * 64;
}

/// Widens rows [row, row + rows) and columns [column, column + columns) to a
/// matrix without gaps, transposed if `from` is. Returns its leading dim.
int64_t widenBlock(ElementType type, const NarrowMatrix &from, int64_t row,
                   int64_t rows, int64_t column, int64_t columns, float *to) {
  const NarrowRows &convert = narrowRows();
  const int64_t *major = from.rows, *minor = from.columns;
  if (from.isTransposed) {
    std::swap(major, minor);
    std::swap(row, column);
    std::swap(rows, columns);
  }
  for (int64_t i = 0; i < rows; ++i) {
    const std::byte *line = from.data + (major ? major[row + i] : row + i) *
                                            from.leading * bytesOfNarrow;
    if (!minor) {
      convert.widen(type, line + column * bytesOfNarrow, to + i * columns,
                    columns);
      continue;
    }
    for (int64_t j = 0; j < columns; ++j)
      convert.widen(type, line + minor[column + j] * bytesOfNarrow,
                    to + i * columns + j, 1);
  }
  return columns;
}

/// The scratch of one thread, and what is in it.
struct Blocks {
  Blocks(std::byte *scratch, const WidenedProduct &product)
      : a(reinterpret_cast<float *>(scratch)),
        b(reinterpret_cast<float *>(
            scratch + floatBytes(std::min(product.m, mostRows),
                                 std::min(product.k, mostTerms)))),
        sum(reinterpret_cast<float *>(
            reinterpret_cast<std::byte *>(b) +
            floatBytes(std::min(product.k, mostTerms),
                       std::min(product.n, mostColumns)))) {}

  float *a, *b, *sum;
};

/// Computes the block of the result at (m0, n0).
class ResultBlock {
public:
  ResultBlock(const WidenedProduct &product, const Blocks &blocks, int64_t m0,
              int64_t n0)
      : product(product), blocks(blocks), m0(m0), n0(n0),
        rows(std::min(mostRows, product.m - m0)),
        columns(std::min(mostColumns, product.n - n0)) {}

  /// `hasA` says that the scratch has the only block of A in these rows.
  bool compute(bool hasA) {
    bool isInPlace = product.result == ElementType::F32 && !product.rows &&
                     !product.terms.empty() && product.k > 0;
    float *sum = isInPlace ? reinterpret_cast<float *>(lineOf(0)) : blocks.sum;
    int64_t leading = isInPlace ? product.ldc : columns;
    float beta = isInPlace ? product.beta : 0;
    if (!isInPlace)
      std::fill_n(sum, rows * columns, 0.0f);
    for (const NarrowFactors &term : product.terms)
      for (int64_t k0 = 0; k0 < product.k; k0 += mostTerms) {
        int64_t terms = std::min(mostTerms, product.k - k0);
        int64_t lda = term.a.isTransposed ? rows : terms;
        if (!hasA)
          widenBlock(product.operands, term.a, m0, rows, k0, terms, blocks.a);
        int64_t ldb = widenBlock(product.operands, term.b, k0, terms, n0,
                                 columns, blocks.b);
        if (dnnl_sgemm(term.a.isTransposed ? 'T' : 'N',
                       term.b.isTransposed ? 'T' : 'N', rows, columns, terms,
                       product.alpha, blocks.a, lda, blocks.b, ldb, beta, sum,
                       leading) != dnnl_success)
          return false;
        beta = 1;
      }
    if (!isInPlace)
      for (int64_t i = 0; i < rows; ++i)
        store(sum + i * columns, lineOf(i));
    return true;
  }

private:
  std::byte *lineOf(int64_t i) const {
    int64_t row = product.rows ? product.rows[m0 + i] : m0 + i;
    return product.c + (row * product.ldc + n0) * bytesOf(product.result);
  }

  /// Adds what C holds, and rounds.
  void store(float *sum, std::byte *line) const {
    bool isNarrow = product.result != ElementType::F32;
    if (product.beta != 0) {
      float held[mostColumns];
      if (isNarrow)
        narrowRows().widen(product.result, line, held, columns);
      else
        std::copy_n(reinterpret_cast<const float *>(line), columns, held);
      for (int64_t j = 0; j < columns; ++j)
        sum[j] += product.beta * held[j];
    }
    if (isNarrow)
      narrowRows().round(product.result, sum, line, columns);
    else
      std::copy_n(sum, columns, reinterpret_cast<float *>(line));
  }

  const WidenedProduct &product;
  const Blocks &blocks;
  const int64_t m0, n0, rows, columns;
};

class WidenedProducts final : public TiledGemm {
public:
  using TiledGemm::TiledGemm;
  uint64_t scratchBytes() const override { return threads * bytesPerThread(); }

private:
  uint64_t bytesPerThread() const {
    return WidenedProduct::scratchBytes(tiling.tileM, tiling.tileN, shape.k);
  }

  bool compute(const Tile &tile) override {
    NarrowFactors factors{{tile.a, shape.transposeA, shape.lda},
                          {tile.b, shape.transposeB, shape.ldb}};
    WidenedProduct product{
        shape.operands, shape.result, tile.rows,  tile.columns, shape.k,
        {&factors, 1},  shape.alpha,  shape.beta, tile.c,       shape.ldc};
    return product.compute(tile.scratch + tile.thread * bytesPerThread());
  }
};

} // namespace

const NarrowRows &narrowRows() {
  static const NarrowRows &best = []() -> const NarrowRows & {
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("f16c"))
      return narrowRowsAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
      return narrowRowsAvx2;
    return narrowRowsBase;
  }();
  return best;
}

uint64_t WidenedProduct::scratchBytes(int64_t m, int64_t n, int64_t k) {
  m = std::min(m, mostRows);
  n = std::min(n, mostColumns);
  k = std::min(k, mostTerms);
  return floatBytes(m, k) + floatBytes(k, n) + floatBytes(m, n);
}

bool WidenedProduct::compute(std::byte *scratch) const {
  Blocks blocks(scratch, *this);
  for (int64_t m0 = 0; m0 < m; m0 += mostRows)
    for (int64_t n0 = 0; n0 < n; n0 += mostColumns) {
      bool hasA = n0 > 0 && terms.size() == 1 && k <= mostTerms;
      if (!ResultBlock(*this, blocks, m0, n0).compute(hasA))
        return false;
    }
  return true;
}

Result<std::unique_ptr<PreparedGemm>> prepareWidened(const GemmShape &shape,
                                                     int threads) {
  return std::unique_ptr<PreparedGemm>(new WidenedProducts(shape, threads));
}

} // namespace polyrank::runtime
