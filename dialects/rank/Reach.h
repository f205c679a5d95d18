// The attribute `rank.reach` of a module: what its machine reaches beside the
// rates and links of `rank.machine`. compiler/cost/ReachAttr.h makes and reads
// it.

#pragma once

#include "mlir/IR/Operation.h"

namespace polyrank::rank {

inline constexpr llvm::StringLiteral reachAttrName = "rank.reach";

/// Verifies that `attribute` is a dictionary on a module with known names:
///
///   launch, host     picoseconds of a kernel on the device, of any command on
///                    the host
///   products         [tile, half of the rate at tiles, and at a depth]
///   devices          of a node
///   node, network    {algorithms = [0], latency, per_byte, reached = [..]}
///   hierarchical     collectives may run within nodes and between them
///   linked           names of axes that have a link of their own
mlir::LogicalResult verifyReach(mlir::Operation *op, mlir::Attribute attribute);

} // namespace polyrank::rank
