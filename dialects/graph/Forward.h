// Helpers for passes on the function @forward of an imported model.

#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::graph {

/// The function @forward; an error where there is none.
mlir::FailureOr<mlir::func::FuncOp> getForward(mlir::ModuleOp module);

/// Erases the ops whose results nobody uses.
void eraseDeadOps(mlir::Block &block);

/// `value` before the reshapes that only add or take away dims of size 1.
mlir::Value withoutUnitDims(mlir::Value value);

} // namespace polyrank::graph
