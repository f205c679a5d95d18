// Lowers ops of `sharding` to what one device does: collectives, local blocks,
// masks.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::lowering {

/// Builds at the context's builder what one device runs for the sharding op
/// `op`, whose local operands are `operands`. A collective is given the id
/// `*nextId`, which is then incremented. Fails, with an error, for ops that do
/// not move data between two layouts in one step (`sharding.reshard`).
mlir::LogicalResult
localizeMovement(mlir::Operation *op, graph::LocalContext &context,
                 mlir::ValueRange operands,
                 llvm::SmallVectorImpl<mlir::Value> &results, int64_t &nextId);

} // namespace polyrank::lowering
