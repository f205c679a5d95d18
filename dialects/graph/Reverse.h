// Reverse mode within one block: cotangents from results back to operands.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::graph {

/// The part of a block that depends on some of its values.
struct Dependents {
  /// The values themselves.
  llvm::SmallVector<mlir::Value> roots;
  /// In program order.
  llvm::SmallVector<mlir::Operation *> ops;
  /// The roots and the floats that the ops compute.
  llvm::DenseSet<mlir::Value> values;
};
/// Returns what depends on `values`. The ops that compute `values` come before
/// everything that depends on them; a `graph.detach` ends the dependence.
Dependents findDependents(mlir::Block &block, mlir::ValueRange values);

/// Cotangents by value.
using Cotangents = llvm::DenseMap<mlir::Value, mlir::Value>;

/// Goes through the ops from the last to the first and builds, at `builder`'s
/// insertion point, the cotangents of their operands from those of their
/// results. Cotangents of one value are added in the order in which its uses
/// are met, last use first; after these come the parts of values that many
/// slices decompose (SliceGradients.h). `enter` is called before an op's
/// gradient is built. Errors name ops without a gradient.
mlir::LogicalResult
addCotangents(mlir::OpBuilder &builder, const Dependents &dependents,
              Cotangents &cotangents,
              llvm::function_ref<void(mlir::Operation *)> enter);

} // namespace polyrank::graph
