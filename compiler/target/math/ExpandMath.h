// Expands the functions of `math` into arithmetic.

#pragma once

#include "mlir/IR/PatternMatch.h"

namespace polyrank::target {

/// Adds patterns that replace `math.ipowi` and the ops of `math` that no
/// instruction computes, on scalars or vectors of f32 and f64.
void populateMathExpansions(mlir::RewritePatternSet &patterns);

/// Returns true if there is code for an op of `arith` or `math` on its types.
bool hasCode(mlir::Operation *op);

} // namespace polyrank::target
