// Matrix products by oneDNN, and how much scratch they need: what the compiler
// asks when it plans memory is what the runtime asks when it loads the plan.

#pragma once

#include "runtime/plan/GemmShape.h"
#include "support/Result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace polyrank::runtime {

struct GemmOperands {
  const float *a, *b;
  float *c;
  void *scratch;
  const int64_t *groups = nullptr, *ids = nullptr; // of a grouped product
};

/// A product made ready: one per structure, shared by all commands that have
/// it.
class PreparedGemm {
public:
  virtual ~PreparedGemm() = default;
  /// What the library asks for, for all threads together; 64-byte aligned
  /// memory of this size goes with every `run`.
  virtual uint64_t scratchBytes() const = 0;
  virtual Result<void> run(const GemmOperands &operands) = 0;
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
