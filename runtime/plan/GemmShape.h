// A matrix product as the plan, the compiler and the device speak of it.

#pragma once

#include <cstdint>
#include <vector>

namespace polyrank::runtime {

/// Sgemm: oneDNN's BLAS call; allocates packing buffers (up to 15 MiB a thread)
/// by itself. Matmul: oneDNN's matmul primitive with our scratch.
enum class GemmLibrary : uint8_t { Sgemm, Matmul };
inline constexpr int numGemmLibraries = 2;

constexpr const char *nameOf(GemmLibrary library) {
  switch (library) {
  case GemmLibrary::Sgemm:
    return "sgemm";
  case GemmLibrary::Matmul:
    return "matmul";
  }
  return "unknown";
}

/// Which dim of a product is in groups, each of which is one product of the
/// outermost batch dim: none, the rows, or the dim that is summed over.
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

/// Where the scratch of a product begins, in bytes: at a cache line.
inline constexpr int64_t gemmScratchAlignment = 64;

/// One batch dim: `count` products, operands so many elements apart (0: the
/// same operand for all).
struct GemmBatchDim {
  int64_t count = 1, aStride = 0, bStride = 0, cStride = 0;
  bool operator==(const GemmBatchDim &) const = default;
};

/// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C for each product of the
/// batch; fp32, row-major, leading dims in elements (see plan.fbs, Gemm).
struct GemmShape {
  GemmLibrary library = GemmLibrary::Sgemm;
  int64_t m = 1, n = 1, k = 1;
  bool transposeA = false, transposeB = false;
  int64_t lda = 1, ldb = 1, ldc = 1;
  std::vector<GemmBatchDim> batch = {}; // outermost first
  float alpha = 1, beta = 0;
  /// Into how many pieces the longer side of each product is cut, each computed
  /// by one thread; 0: as follows from the sizes. Other pieces may give other
  /// bits.
  int64_t pieces = 0;
  GemmGroups grouped = GemmGroups::None;
  bool operator==(const GemmShape &) const = default;
};

} // namespace polyrank::runtime
