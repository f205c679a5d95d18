// The twin of a GPU's kernels: the same LLVM IR, compiled for this CPU.
//
// What a CPU's memory and threads hide becomes visible: each access of memory
// asks the twin first, and so does each `llvm.nvvm` call. The arithmetic is the
// kernel's own, instruction by instruction.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/Result.h"
#include "test/compiler/target/cuda/TwinMemory.h"

namespace llvm {
class Module;
} // namespace llvm

namespace polyrank::twin {

/// How a kernel is run.
struct Launch {
  int64_t blocks = 1;
  /// A multiple of the warp's size.
  int threads = warpSize;
  /// For each parameter of the kernel, where its value is.
  std::vector<const void *> parameters;
  /// Global memory; parameters point into it.
  std::vector<Buffer> buffers;
  /// The order in which blocks, warps and lanes run.
  uint64_t seed = 0;
  /// Denormal results and operands of f32 are zero, as the kernel's `.ftz`
  /// demands. In a twin those of f64 are then zero too, which a GPU never does:
  /// kernels of f64 are run without.
  bool flushesDenormals = false;
  /// The traffic does not depend on the order: one run may count it for all.
  bool countsTraffic = true;
};

struct Report {
  std::vector<Finding> findings;
  Traffic traffic;

  bool has(Fault fault) const;
  /// The findings, one a line.
  std::string print() const;
};

class TwinModule {
public:
  /// Compiles the kernels of a module, which is as LLVM's NVPTX pipeline left
  /// it: the next step would be PTX. Fails if they contain what the twin cannot
  /// see: atomics, calls of functions that it does not know, whole copies of
  /// memory.
  static Result<std::unique_ptr<TwinModule>> create(const llvm::Module &module);
  ~TwinModule();
  TwinModule(const TwinModule &) = delete;

  /// Fails if there is no such kernel, or it has other parameters.
  Result<Report> run(const std::string &kernel, const Launch &launch) const;

private:
  struct Code;
  explicit TwinModule(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code;
};

} // namespace polyrank::twin
