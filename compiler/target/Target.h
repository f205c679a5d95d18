// What the compiler asks of the devices that its programs run on.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

namespace polyrank::target {

/// What grouping asks of ops that become one kernel.
struct KernelMeasure {
  /// Whether it is larger than what pays: large kernels take long to compile
  /// and run out of registers. Ops that are one kernel in any case may be.
  bool isTooLarge;
  /// Elements that are loaded and stored one by one, because they are no
  /// neighbours in memory.
  int64_t strided;
  /// Whether it walks in narrow strips across the rows of what it reads, as a
  /// sum over rows does.
  bool isInStrips;
  /// Whether a result has an element for each point, reduced ones included.
  bool storesFull;
};

/// What a rank reaches, for schedules: not measured, so that one program is
/// compiled into one plan.
struct Rates {
  double flopsPerSecond; // in products of f32
  double bytesPerSecond; // of memory that kernels read and write
};
/// GFLOPS:GB_PER_S, as --rates takes it.
Result<Rates> parseRates(llvm::StringRef text);

/// One entry of plan.Kernels, and what its launches need. The function takes
/// the buffers of the kernel's arguments, then of its results.
struct CompiledKernel {
  std::string symbol;
  int64_t range = 1, grain = 1;
  int64_t flops = 0, bytesRead = 0, bytesWritten = 0;
};

struct CompiledKernels {
  /// For a cpu: an ELF shared object without dependencies or constructors.
  std::string image;
  std::vector<CompiledKernel> kernels;
  /// What it was compiled for, and the features that it needs (LLVM's names).
  std::string machine;
  std::vector<std::string> features;
};

} // namespace polyrank::target

#include "compiler/target/TargetInterface.h.inc"

namespace polyrank::target {

/// What `rank.target` of the module that holds `op` says, or else the CPU of
/// this machine. Emits an error where the attribute is no target, or one that
/// this program was built without.
mlir::FailureOr<TargetInterface> getTarget(mlir::Operation *op);

} // namespace polyrank::target
