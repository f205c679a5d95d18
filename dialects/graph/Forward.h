// Functions on imported models that the training passes share.

#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::graph {

/// The function @forward; emits an error if there is none.
mlir::FailureOr<mlir::func::FuncOp> getForward(mlir::ModuleOp module);

/// Erases the ops whose results are unused.
void eraseDeadOps(mlir::Block &block);

/// Looks through reshapes that only add or remove dims of size 1.
mlir::Value withoutUnitDims(mlir::Value value);

} // namespace polyrank::graph
