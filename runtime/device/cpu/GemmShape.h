// The description of a GEMM that the compiler's CPU target and the device
// share.

#pragma once

#include "support/ElementType.h"

#include <cstdint>
#include <vector>

namespace polyrank::runtime {

/// Sgemm is oneDNN's BLAS call for f32, which allocates packing buffers itself
/// (up to 15 MiB per thread). Matmul is oneDNN's matmul primitive, with scratch
/// from the plan, for the elements that the machine multiplies. Widened
/// converts blocks of bf16 or f16 to f32, in scratch from the plan, and
/// multiplies them by Sgemm.
enum class GemmLibrary : uint8_t { Sgemm, Matmul, Widened };
inline constexpr int numGemmLibraries = 3;

constexpr const char *nameOf(GemmLibrary library) {
  switch (library) {
  case GemmLibrary::Sgemm:
    return "sgemm";
  case GemmLibrary::Matmul:
    return "matmul";
  case GemmLibrary::Widened:
    return "widened";
  }
  return "unknown";
}

/// The dim of a GEMM that is split into groups, each of which is one product of
/// the outermost batch dim: none, the rows, or the inner (contracted) dim.
enum class GemmGroups : uint8_t { None, Rows, Inner };
inline constexpr int numGemmGroups = 3;

constexpr const char *nameOf(GemmGroups groups) {
  switch (groups) {
  case GemmGroups::None:
    return "none";
  case GemmGroups::Rows:
    return "rows";
  case GemmGroups::Inner:
    return "inner";
  }
  return "unknown";
}

/// One batch dim: `count` products whose operands are the given strides apart,
/// in elements (0: the same operand for all).
struct GemmBatchDim {
  int64_t count = 1, aStride = 0, bStride = 0, cStride = 0;
  bool operator==(const GemmBatchDim &) const = default;
};

/// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C for each product of the
/// batch; row-major, leading dims in elements (see plan.fbs, CpuGemm).
struct GemmShape {
  GemmLibrary library = GemmLibrary::Sgemm;
  int64_t m = 1, n = 1, k = 1;
  bool transposeA = false, transposeB = false;
  int64_t lda = 1, ldb = 1, ldc = 1;
  std::vector<GemmBatchDim> batch = {}; // outermost first
  float alpha = 1, beta = 0;
  /// The number of pieces into which the longer side of each product is cut,
  /// each computed by one thread; 0: derived from the sizes. Another number may
  /// give other bits.
  int64_t pieces = 0;
  GemmGroups grouped = GemmGroups::None;
  /// The elements of A and B, of the sums of products, and of C.
  ElementType operands = ElementType::F32, accumulator = ElementType::F32,
              result = ElementType::F32;

  /// True if A and B have elements that are narrower than the sums of their
  /// products.
  bool isNarrow() const { return operands != accumulator; }
  bool operator==(const GemmShape &) const = default;
};

} // namespace polyrank::runtime
