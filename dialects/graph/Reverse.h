// Reverse mode within one block: cotangents from results back to operands.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::graph {

/// What of a block varies with some of its values.
struct Dependents {
  /// The values themselves.
  llvm::SmallVector<mlir::Value> roots;
  /// In program order.
  llvm::SmallVector<mlir::Operation *> ops;
  /// They and the floats that the ops compute.
  llvm::DenseSet<mlir::Value> values;
};
/// Whoever computes one of `values` is in front of what varies with them; what
/// is behind a `graph.detach` does not.
Dependents findDependents(mlir::Block &block, mlir::ValueRange values);

/// Cotangents by value.
using Cotangents = llvm::DenseMap<mlir::Value, mlir::Value>;

/// Goes through the ops from the last to the first and builds at `builder`'s
/// point what their operands' cotangents are, given those of the results.
/// Cotangents of one value are added in the order in which its uses are met,
/// last use first, and behind these the parts of those that many slices take
/// apart (SliceGradients.h). `enter` is called before an op's gradient is
/// built. Errors name ops without a gradient.
mlir::LogicalResult
addCotangents(mlir::OpBuilder &builder, const Dependents &dependents,
              Cotangents &cotangents,
              llvm::function_ref<void(mlir::Operation *)> enter);

} // namespace polyrank::graph
