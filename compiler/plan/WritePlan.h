// Writes the programs of devices as the plan file that the runtime executes.

#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan/StepTimeline.h"

namespace polyrank::target {
class KernelCache;
} // namespace polyrank::target

namespace polyrank::plan {

struct PlanOptions {
  /// True if `@step` computes outputs or a loss and changes nothing.
  bool forward = false;
  /// The machine by whose rates and links the step was planned, for reports.
  std::string machine;
  /// Keeps the code of kernels for other plans; null: none is kept.
  target::KernelCache *kernels = nullptr;
  /// See target::CompileSettings.
  std::string assembler;
};

/// Writes the plan of the module to `path`: one program for each function with
/// a place, or else one of `@step` (or else `@forward`). Functions are in local
/// shapes and have buffers assigned. Returns the planned timeline of a step.
/// Emits an error and leaves no file if the runtime's own verifier would refuse
/// the plan.
mlir::FailureOr<runtime::PlanTimeline> writePlan(mlir::ModuleOp module,
                                                 const PlanOptions &options,
                                                 llvm::StringRef path);

} // namespace polyrank::plan
