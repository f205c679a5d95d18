// The interfaces between the compiler and the devices that its programs run on.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Result.h"

namespace polyrank::runtime::plan {
struct CallT;
} // namespace polyrank::runtime::plan

namespace polyrank::target {

/// What a target measured of loops that may become a kernel. Only the target
/// that made it knows what is in it.
class KernelMeasure {
public:
  virtual ~KernelMeasure() = default;
};
using KernelMeasurePtr = std::shared_ptr<const KernelMeasure>;

/// The rates that a rank reaches, for timelines. They are not measured, so that
/// compiling a program twice gives the same plan.
struct Rates {
  double flopsPerSecond; // in products of f32
  double bytesPerSecond; // of memory that kernels read and write
};

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

/// The target of the machine (`rank.machine`) of the module around `op`, or
/// else the rank dialect's default. Emits an error if the attribute is no
/// target, or is one that this program was built without.
mlir::FailureOr<TargetInterface> getTarget(mlir::Operation *op);
/// The same, if it computes kernels; emits an error if not.
mlir::FailureOr<KernelTarget> getKernelTarget(mlir::Operation *op);
/// The same, if it has libraries; emits an error if not.
mlir::FailureOr<LibraryTarget> getLibraryTarget(mlir::Operation *op);

/// The loops of a kernel after lower-kernels. Emits an error at a kernel that
/// has other ops.
mlir::FailureOr<kernel::LoopsOp> loopsOf(rank::KernelOp kernel);
/// Sets `in_place` of a kernel for a target whose threads do such work.
void setInPlace(rank::KernelOp kernel, kernel::LoopsOp loops,
                kernel::ThreadWork work);

} // namespace polyrank::target
