// Costs of the ops of @forward, for the stage assignment.

#pragma once

#include "compiler/stages/StageCut.h"
#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::stages {

struct StageRates {
  target::Rates rates;
  int64_t picosecondsPerByte = 0; // between stages
  /// True if the backward and the optimizer are included.
  bool train = true;
};

/// Returns the problem with one CutOp for each of `ops`, which depend on
/// parameters and are listed with operands first. The caller fills in the
/// number of stages, the microbatches in flight and the ops that the user
/// fixed.
CutProblem getCutProblem(mlir::func::FuncOp forward,
                         llvm::ArrayRef<mlir::Operation *> ops,
                         const StageRates &rates);

/// FLOPs of one execution of the forward.
int64_t getFlops(mlir::Operation *op);

/// Bytes of an argument that is a parameter, or of a value.
int64_t getBytes(mlir::Value value);

} // namespace polyrank::stages
