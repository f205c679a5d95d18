// GEMMs by oneDNN, and their scratch. The compiler, when it plans memory, and
// the runtime, when it loads the plan, ask for the scratch size in the same
// way.

#pragma once

#include "runtime/device/cpu/GemmShape.h"
#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace polyrank::runtime {

/// Elements of the shape's types.
struct GemmOperands {
  const void *a, *b;
  void *c;
  void *scratch;
  const int64_t *groups = nullptr, *ids = nullptr; // of a grouped GEMM
};

/// A prepared GEMM: one per shape, shared by all commands of this shape.
class PreparedGemm {
public:
  virtual ~PreparedGemm() = default;
  /// The scratch that the library needs for all threads together. Each `run`
  /// gets 64-byte aligned memory of this size.
  virtual uint64_t scratchBytes() const = 0;
  virtual Result<void> run(const GemmOperands &operands) = 0;
};

/// Returns true if there is a product of such elements: f32 gives f32, and bf16
/// and f16, added in f32, give their own type or f32.
bool hasProduct(ElementType operands, ElementType accumulator,
                ElementType result);

/// Returns true if oneDNN's primitive multiplies such narrow elements on this
/// machine, for which bf16 needs avx512_bf16 or AMX.
bool hasNarrowMatmul(ElementType operands, ElementType result);

/// Prepares `shape` for a team of `threads`, whose members take one piece after
/// another. The bits of the result do not depend on the number of threads.
/// Fails if the library does not support the shape.
Result<std::unique_ptr<PreparedGemm>> prepareGemm(const GemmShape &shape,
                                                  int threads);

/// The scratch that a plan must give to `shape`, in bytes.
Result<uint64_t> gemmScratchBytes(const GemmShape &shape, int threads);

/// The number of pieces that the sizes imply; `shape.pieces` is ignored.
int64_t defaultPieces(const GemmShape &shape);

std::string describe(const GemmShape &shape);

} // namespace polyrank::runtime
