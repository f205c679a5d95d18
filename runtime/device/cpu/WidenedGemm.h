// Products of bf16 and f16 in f32: blocks of both factors are widened into
// scratch, multiplied by oneDNN's sgemm, and rounded once.

#pragma once

#include "runtime/device/cpu/Gemm.h"

#include <cstddef>
#include <span>

namespace polyrank::runtime {

/// A matrix of bf16 or f16, or its transpose, in memory. `rows` and `columns`
/// are the numbers of the rows and columns of that matrix that count; null:
/// all, in their order.
struct NarrowMatrix {
  const std::byte *data;
  bool isTransposed = false;
  int64_t leading;
  const int64_t *rows = nullptr, *columns = nullptr;
};

/// A and B of one summand.
struct NarrowFactors {
  NarrowMatrix a, b;
};

/// C[m, n] = alpha * (sum over `terms` of A[m, k] * B[k, n]) + beta * C, where
/// row i of C is at `c` + rows[i] * ldc (without `rows`, i * ldc) elements. The
/// sum is formed in f32, in an order that depends on the sizes alone.
struct WidenedProduct {
  ElementType operands, result;
  int64_t m, n, k;
  std::span<const NarrowFactors> terms;
  float alpha, beta;
  std::byte *c;
  int64_t ldc;
  const int64_t *rows = nullptr;

  /// Computes the product on the calling thread. Returns whether it worked.
  /// `scratch` is aligned to 64 bytes.
  bool compute(std::byte *scratch) const;

  /// The scratch of a product of at most these sizes.
  static uint64_t scratchBytes(int64_t m, int64_t n, int64_t k);
};

/// A GEMM of narrow elements whose tiles are such products.
Result<std::unique_ptr<PreparedGemm>> prepareWidened(const GemmShape &shape,
                                                     int threads);

} // namespace polyrank::runtime
