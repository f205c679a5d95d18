// Lowers a scheduled kernel to LLVM IR for a GPU.

#pragma once

#include <memory>

#include "compiler/target/cuda/KernelSchedule.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace polyrank::cuda {

/// The code of a kernel, and what a launch of it takes.
struct LoweredKernel {
  /// One function, `symbol`, whose parameters are the buffers of the arguments,
  /// then of the results, in address space 1. It is optimised for GPUs from
  /// sm_80 on, and adjacent loads and stores are joined, so that it is what
  /// instructions are selected for.
  std::unique_ptr<llvm::Module> module;
  /// The kernel's name as PTX can have it.
  std::string symbol;
  int64_t threads = 0, sharedBytes = 0, blocks = 0;
  /// For reports: see target::CompiledEntry.
  std::string kind;
  int64_t requestedBytes = 0, loadedBytes = 0;
};

/// Lowers a kernel whose loops have `#cuda.schedule`. Emits an error at the
/// kernel if it cannot be lowered. `expansions` are those of
/// target::populateMathExpansions. All dialects that the lowering needs must be
/// loaded (`loadDialects`). If `text` is not null, it becomes the MLIR of the
/// emitted kernel.
mlir::FailureOr<LoweredKernel>
lowerToLlvm(rank::KernelOp kernel, llvm::LLVMContext &context,
            const mlir::FrozenRewritePatternSet &expansions,
            std::string *text = nullptr);

/// Makes the dialects and translations that lowering needs known.
void registerCodegenDialects(mlir::DialectRegistry &registry);
/// Loads them: many threads lower kernels concurrently, and none may change
/// the context.
void loadDialects(mlir::MLIRContext *context);

/// Returns the PTX of a lowered kernel for an architecture.
std::string writePtx(const LoweredKernel &kernel, llvm::StringRef architecture);

} // namespace polyrank::cuda
