// Writes the programs of devices as the plan file that the runtime executes.

#pragma once

#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::plan {

struct PlanOptions {
  /// Threads of each rank.
  int64_t threads = 1;
  /// AXIS=MICROSECONDS:GB_PER_S and GFLOPS:GB_PER_S (or empty), for the planned
  /// durations of commands.
  llvm::ArrayRef<std::string> links = {};
  std::string rates = {};
  /// True if `@step` computes outputs or a loss and changes nothing.
  bool forward = false;
};

/// Writes the plan of the module to `path`: one program for each function with
/// a place, or else one of `@step` (or else `@forward`). Functions are in local
/// shapes and have buffers assigned. Emits an error and leaves no file if the
/// runtime's own verifier would refuse the plan.
mlir::LogicalResult writePlan(mlir::ModuleOp module, const PlanOptions &options,
                              llvm::StringRef path);

} // namespace polyrank::plan
