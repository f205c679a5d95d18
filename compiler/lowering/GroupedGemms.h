// Products of groups as library calls.

#pragma once

#include "mlir/IR/Operation.h"

namespace polyrank::lowering {

/// Each graph.grouped_matmul and graph.grouped_outer inside `root` becomes a
/// rank.gemm of groups. Rows and matrices are read in place where they are
/// strided views of others, of which one stride is 1.
mlir::LogicalResult formGroupedGemms(mlir::Operation *root);

} // namespace polyrank::lowering
