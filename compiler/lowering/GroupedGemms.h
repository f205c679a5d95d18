// Lowers grouped GEMMs to library calls.

#pragma once

#include "mlir/IR/Operation.h"

namespace polyrank::lowering {

/// Replaces each graph.grouped_matmul and graph.grouped_outer inside `root` by
/// a rank.gemm with groups. Rows and matrices are read in place if they are
/// strided views with one stride of 1.
mlir::LogicalResult formGroupedGemms(mlir::Operation *root);

} // namespace polyrank::lowering
