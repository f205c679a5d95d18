// Ops that the backward computes again.

#pragma once

#include "mlir/IR/Operation.h"

namespace polyrank::codegen {

/// Returns true if an op of one list repeats in the backward, as recompute
/// does, what an op of the other computes in the forward. One kernel of both
/// would compute it twice at the same time, and keep in memory what is computed
/// again in order not to be kept.
bool repeatsForward(llvm::ArrayRef<mlir::Operation *> ops,
                    llvm::ArrayRef<mlir::Operation *> others);

} // namespace polyrank::codegen
