// The verifier of laid-out ops: can each device compute its part of the result
// from its parts of the operands, without its neighbours?
//
// If every op passes, the program is right, because nothing but `sharding` ops
// changes a layout. The rules, L1 to L12, are in Graph.td.

#pragma once

#include "dialects/graph/ShardingRule.h"

namespace polyrank::graph {

/// Emits an error that names op, operand, axis and remedy if a constraint
/// fails. Ops without layouts pass.
mlir::LogicalResult verifyLayouts(mlir::Operation *op);
/// The same with another rule than the op's own, for tests of rules.
mlir::LogicalResult verifyLayouts(mlir::Operation *op,
                                  const ShardingRule &rule);

} // namespace polyrank::graph
