// The verifier of laid-out ops: can each device compute its part of the result
// from its parts of the operands, without its neighbours?
//
// If every op passes, the program is right, because nothing but `sharding` and
// `pipeline` ops changes a layout. The constraints, by the numbers that
// test/dialects/graph/errors.mlir repeats:
//
//  L1  Either every operand and result has a layout, or none; on one mesh.
//  L2  The uses of an axis cut it into sub-axes that divide each other.
//  L3  A dim that the op takes apart or merges is split along its factors, and
//      a padded dim is one whole factor.
//  L4  Every tensor that has a factor is split on it by the same axes.
//  L5  An axis splits one factor of the op.
//  L6  Factors that are composite or replicated are neither split nor padded;
//      a halo factor is not padded without being split.
//  L7  An axis over which an operand is partial splits no factor, and the op
//      passes that kind of partial in those operands: no product of two partial
//      operands, no nonlinear function of one.
//  L8  A result is partial over exactly the axes of its partial operands and of
//      the reduction factors that it lacks: no missing, no doubled reduction.
//  L9  Every tensor that has a padded factor has it with the same extent (of a
//      halo factor: with blocks in the ratio of its dims), and
//      where the factor is reduced every operand that has it holds the
//      reduction's identity there (`fill`).
//  L10 A result's padding is undefined: only `sharding.fill`, collectives and
//      arguments say what it holds.
//  L11 Operands are at one place or replicated over its axis, and results are
//  at
//      that place.
//  L12 Where a halo factor is split, operands have the borders that the op
//  reads
//      (`halo`) and results those that it gives (`spill`); no others have any.

#pragma once

#include "dialects/graph/ShardingRule.h"

namespace polyrank::graph {

/// Emits an error that names op, operand, axis and remedy where a constraint
/// fails. Ops without layouts pass.
mlir::LogicalResult verifyLayouts(mlir::Operation *op);
/// The same under another rule than the op's own: for tests of rules.
mlir::LogicalResult verifyLayouts(mlir::Operation *op,
                                  const ShardingRule &rule);

} // namespace polyrank::graph
