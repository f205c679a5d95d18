// What the ops of @forward cost where they are cut into stages.

#pragma once

#include "compiler/stages/StageCut.h"
#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::stages {

struct StageRates {
  target::Rates rates;
  int64_t picosecondsPerByte = 0; // between stages
  /// With backward and optimizer.
  bool train = true;
};

/// `ops` have stages, and are in an order with operands in front: one op of the
/// problem each. Stages, microbatches in flight and what the user fixed are
/// left for others.
CutProblem getCutProblem(mlir::func::FuncOp forward,
                         llvm::ArrayRef<mlir::Operation *> ops,
                         const StageRates &rates);

/// FLOPs of one execution of the forward.
int64_t getFlops(mlir::Operation *op);

/// Bytes of an argument that is a parameter, or of a value.
int64_t getBytes(mlir::Value value);

} // namespace polyrank::stages
