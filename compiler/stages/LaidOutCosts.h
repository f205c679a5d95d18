// What the ops and parameters of @forward cost in the layouts of the step: the
// driver finds the layouts of the step that is not cut into stages, and leaves
// these costs as attributes, which assign-stages reads and removes.
//
//   %1 = graph.matmul %0, %w .. {stages.cost = array<i64: 31000, 4096, 8192>}
//   graph.parameter @w .. {stages.memory = array<i64: 8192, 2048>}

#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::stages {

/// The cost of an op for one microbatch, on one device.
struct LaidOutCost {
  /// Picoseconds of the op, of what the backward computes for it, and of the
  /// collectives of both.
  int64_t time = 0;
  /// Bytes of its results.
  int64_t bytes = 0;
  /// Bytes that are kept for the backward.
  int64_t kept = 0;
};
/// The bytes of a parameter on one device: its value and gradient, which each
/// stage that uses it has, and the optimizer's state, which its owner has.
struct LaidOutMemory {
  int64_t everywhere = 0, owned = 0;
};

/// The costs that an op or parameter has; nullopt if it has none.
/// @{
std::optional<LaidOutCost> getLaidOutCost(mlir::Operation *op);
std::optional<LaidOutMemory> getLaidOutMemory(graph::ParameterOp parameter);
void setLaidOutCost(mlir::Operation *op, const LaidOutCost &cost);
void setLaidOutMemory(graph::ParameterOp parameter,
                      const LaidOutMemory &memory);
/// @}

/// Removes the costs of all ops and parameters.
void removeLaidOutCosts(mlir::ModuleOp module);

} // namespace polyrank::stages
