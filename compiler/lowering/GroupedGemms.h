// Lowers grouped GEMMs to library calls.

#pragma once

#include "compiler/target/Target.h"

namespace polyrank::lowering {

/// Replaces each graph.grouped_matmul and graph.grouped_outer inside `root` by
/// a rank.gemm with groups. Rows and matrices are read in place if they are
/// strided views with one stride of 1. Emits an error if the target has no call
/// for one of them.
mlir::LogicalResult formGroupedGemms(mlir::Operation *root,
                                     target::LibraryTarget target);

} // namespace polyrank::lowering
