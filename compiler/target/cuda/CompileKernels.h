// Compiles kernels to PTX and to machine code.

#pragma once

#include "compiler/target/Target.h"

namespace polyrank::cuda {

/// See target::KernelTarget. `architectures` are those of `#cuda.target`.
mlir::FailureOr<target::CompiledKernels>
compileKernels(mlir::ModuleOp module, llvm::ArrayRef<std::string> architectures,
               const target::CompileSettings &settings);

/// Sets the schedule of a kernel's loops and the kernel's `in_place`.
mlir::LogicalResult scheduleKernel(rank::KernelOp kernel);

/// Writes how a scheduled kernel is divided into blocks.
mlir::LogicalResult writeLaunch(rank::KernelOp kernel,
                                runtime::plan::LaunchT &written);

} // namespace polyrank::cuda
