// Random kernels: those of random programs (test/random), with larger tensors.

#pragma once

#include "dialects/rank/Rank.h"
#include "test/compiler/target/schedule/EvaluateSchedule.h"

namespace polyrank::target {

/// Draws a program and lowers it for `target` (an attribute with the interface
/// `KernelTarget`): a module whose kernels are scheduled. Sizes are often no
/// multiples of anything; some ops compute with f64, bf16 or f16. Null if a
/// pass fails, which is an error.
mlir::OwningOpRef<mlir::ModuleOp>
drawKernels(mlir::MLIRContext &context, uint64_t seed, mlir::Attribute target);

/// Draws arguments for a kernel: floats with all their digits, for some kernels
/// also zeros, infinities, NaN and denormals; integers that are often valid
/// indices.
std::vector<Bytes> drawArguments(rank::KernelOp kernel, uint64_t seed);

/// The meaning of a scheduled kernel: results for these arguments. The order is
/// that of its loops, as the target says (ReductionOrder.h).
mlir::FailureOr<std::vector<Bytes>>
evaluateKernel(rank::KernelOp kernel, const ReductionOrder &order,
               bool flushesDenormals, llvm::ArrayRef<Bytes> arguments);

/// How many kernels of each kind were compared: of the names that schedules
/// have, and of the element types.
class KernelCounts {
public:
  void add(rank::KernelOp kernel, llvm::StringRef kind);
  /// The kinds and element types that all targets have and no kernel had.
  std::vector<std::string> getMissing() const;
  std::string print() const;

private:
  llvm::StringMap<int64_t> kinds, types;
};

} // namespace polyrank::target
