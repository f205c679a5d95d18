// The interface between the compiler and the devices that its programs run on.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

namespace polyrank::runtime::plan {
struct CallT;
} // namespace polyrank::runtime::plan

namespace polyrank::target {

/// Costs of ops that may become one kernel, for grouping.
struct KernelMeasure {
  /// True if the kernel is larger than is worthwhile: large kernels take long
  /// to compile and run out of registers. Ops that are one kernel in any case
  /// may be.
  bool isTooLarge;
  /// The number of elements that are loaded and stored one by one, because they
  /// are not adjacent in memory.
  int64_t strided;
  /// True if the kernel walks in narrow strips across the rows of what it
  /// reads, as a sum over rows does.
  bool isInStrips;
  /// True if a result has an element for each point of the iteration space,
  /// reduced variables included.
  bool storesFull;
};

/// The rates that a rank reaches, for timelines. They are not measured, so that
/// compiling a program twice gives the same plan.
struct Rates {
  double flopsPerSecond; // in products of f32
  double bytesPerSecond; // of memory that kernels read and write
};
/// Parses compute=GFLOPS,memory=GB_PER_S, the format of --rates, or the former
/// GFLOPS:GB_PER_S.
Result<Rates> parseRates(llvm::StringRef text);

/// One entry of plan.Kernels, with what its launches need. The function takes
/// the buffers of the kernel's arguments, then of its results.
struct CompiledKernel {
  std::string symbol;
  int64_t range = 1, grain = 1;
  int64_t flops = 0, bytesRead = 0, bytesWritten = 0;
};

struct CompiledKernels {
  /// For a CPU: an ELF shared object without dependencies or constructors.
  std::string image;
  std::vector<CompiledKernel> kernels;
  /// The CPU that the image was compiled for, and the features that it needs
  /// (by LLVM's names).
  std::string machine;
  std::vector<std::string> features;
};

} // namespace polyrank::target

#include "compiler/target/TargetInterface.h.inc"

namespace polyrank::target {

/// The target that `rank.target` of the module around `op` names, or else the
/// rank dialect's default. Emits an error if the attribute is no target, or is
/// one that this program was built without.
mlir::FailureOr<TargetInterface> getTarget(mlir::Operation *op);

} // namespace polyrank::target
