// Compiles kernels to machine code.

#pragma once

#include "compiler/target/Target.h"

namespace polyrank::cpu {

/// See target::KernelTarget. `machine` is the string of `#cpu.target`.
mlir::FailureOr<target::CompiledKernels>
compileKernels(mlir::ModuleOp module, const std::string &machine,
               const target::CompileSettings &settings);

/// Sets the schedule of a kernel's loops and the kernel's `in_place`.
mlir::LogicalResult scheduleKernel(rank::KernelOp kernel);

/// Writes how a scheduled kernel is divided over threads.
mlir::LogicalResult writeLaunch(rank::KernelOp kernel,
                                runtime::plan::LaunchT &written);

/// Makes the dialects and translations that compileKernels needs known.
void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace polyrank::cpu
