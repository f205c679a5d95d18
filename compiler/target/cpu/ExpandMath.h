// The functions of `math` as arithmetic.

#pragma once

#include "mlir/IR/PatternMatch.h"

namespace polyrank::cpu {

/// Patterns that replace the ops of `math` that no instruction computes, on
/// scalars or vectors of f32 and f64, and `math.ipowi`.
void populateMathExpansions(mlir::RewritePatternSet &patterns);

/// Whether there is code for an op of `arith` or `math` on its types.
bool hasCode(mlir::Operation *op);

} // namespace polyrank::cpu
