// Kernels to machine code.

#pragma once

#include <string>
#include <vector>

#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::codegen {

struct CodegenOptions {
  /// An LLVM CPU name, one of the levels x86-64-v3 and x86-64-v4, or "native":
  /// the highest level that this machine has. At least AVX2 and FMA.
  std::string cpu = "native";
  /// Where each kernel's LLVM IR and assembly go, for people; empty: nowhere.
  std::string dumpDirectory;
};

/// One entry of plan.Kernels, and what its launches need. The function takes
/// the buffers of the kernel's arguments, then of its results.
struct CompiledKernel {
  std::string symbol;
  int64_t range = 1, grain = 1;
  int64_t flops = 0, bytesRead = 0, bytesWritten = 0;
};

struct CompiledKernels {
  /// An ELF shared object without dependencies or constructors.
  std::string image;
  std::vector<CompiledKernel> kernels;
  /// What it was compiled for, and the features that it needs (LLVM's names).
  std::string cpu;
  std::vector<std::string> features;
};

/// Compiles the `rank.kernel`s of the module, in order; their symbols are the
/// kernels' names. Errors are emitted at the kernel.
mlir::FailureOr<CompiledKernels> compileKernels(mlir::ModuleOp module,
                                                const CodegenOptions &options);

/// `range`, `grain` and `in_place` of a kernel, as attributes of it.
mlir::LogicalResult describeKernel(rank::KernelOp kernel);

/// Makes the dialects and translations that compileKernels needs known.
void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace polyrank::codegen
