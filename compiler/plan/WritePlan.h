// From the programs of devices to the plan file that the runtime executes.

#pragma once

#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::plan {

struct PlanOptions {
  /// Threads of each rank.
  int64_t threads = 1;
  /// AXIS=MICROSECONDS:GB_PER_S and GFLOPS:GB_PER_S (or empty), for what
  /// commands should take.
  llvm::ArrayRef<std::string> links = {};
  std::string rates = {};
  /// `@step` computes outputs or a loss and changes nothing.
  bool forward = false;
};

/// Writes the plan of the module's functions with a place, one program each, or
/// of its `@step` (or else `@forward`), in local shapes and with buffers
/// assigned, to `path`. Emits an error and leaves no file where the runtime's
/// own verifier would refuse the plan.
mlir::LogicalResult writePlan(mlir::ModuleOp module, const PlanOptions &options,
                              llvm::StringRef path);

} // namespace polyrank::plan
