// Matrix products by oneDNN, and how much scratch they need: what the compiler
// asks when it plans memory is what the runtime asks when it loads the plan.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Sgemm: oneDNN's BLAS call; allocates packing buffers (up to 15 MiB a thread)
/// by itself. Matmul: oneDNN's matmul primitive with our scratch.
enum class GemmLibrary : uint8_t { Sgemm, Matmul };

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
  std::vector<GemmBatchDim> batch; // outermost first
  float alpha = 1, beta = 0;
  /// Into how many pieces the longer side of each product is cut, each computed
  /// by one thread; 0: as follows from the sizes. Other pieces may give other
  /// bits.
  int64_t pieces = 0;
  bool operator==(const GemmShape &) const = default;
};

/// A product made ready: one per structure, shared by all commands that have
/// it.
class PreparedGemm {
public:
  virtual ~PreparedGemm() = default;
  /// What the library asks for, for all threads together; 64-byte aligned
  /// memory of this size goes with every `run`.
  virtual uint64_t scratchBytes() const = 0;
  virtual Result<void> run(const float *a, const float *b, float *c,
                           void *scratch) = 0;
};

/// Prepares `shape` for a team of `threads`, whose members take one piece after
/// another. The bits of the result do not depend on the number of threads.
/// Fails where the library cannot do it.
Result<std::unique_ptr<PreparedGemm>> prepareGemm(const GemmShape &shape,
                                                  int threads);

/// The scratch that a plan must give to `shape`, in bytes.
Result<uint64_t> gemmScratchBytes(const GemmShape &shape, int threads);

/// The number of pieces that follows from the sizes: `shape.pieces` is ignored.
int64_t defaultPieces(const GemmShape &shape);

std::string describe(const GemmShape &shape);

} // namespace polyrank::runtime
