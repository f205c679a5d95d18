// Kernels to machine code.

#pragma once

#include "compiler/target/Target.h"

namespace polyrank::cpu {

/// See target::TargetInterface. `machine` is what `#rank.cpu` says.
mlir::FailureOr<target::CompiledKernels>
compileKernels(mlir::ModuleOp module, const std::string &machine,
               llvm::StringRef dumpDirectory);

/// `range`, `grain` and `in_place` of a kernel, as attributes of it.
mlir::LogicalResult scheduleKernel(rank::KernelOp kernel);

/// Makes the dialects and translations that compileKernels needs known.
void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace polyrank::cpu
