// Costs of the ops of @forward, for the stage assignment.

#pragma once

#include "compiler/cost/Machine.h"
#include "compiler/stages/StageCut.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::stages {

/// Returns the problem with one CutOp for each of `ops`, which depend on
/// parameters and are listed with operands first. With `train`, the backward
/// and the optimizer are included. The caller fills in the number of stages,
/// the time of a byte between them, the microbatches in flight and the ops that
/// the user fixed.
CutProblem getCutProblem(mlir::func::FuncOp forward,
                         llvm::ArrayRef<mlir::Operation *> ops,
                         const cost::Machine &machine, bool train);

/// FLOPs of one execution of the forward.
int64_t getFlops(mlir::Operation *op);

/// Bytes of an argument that is a parameter, or of a value.
int64_t getBytes(mlir::Value value);

} // namespace polyrank::stages
