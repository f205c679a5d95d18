// Cuts long sums into partial sums, where the target wants it.

#pragma once

#include "compiler/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::codegen {

/// Replaces each sum for which the target wants parts (`getSumPart`) by two
/// sums, which kernels of their own compute: that of each part, and that of the
/// partial results. A part has at most the values that the target wants:
/// consecutive values of one summed dim, or of several of which the inner ones
/// are summed whole. Where parts do not come out even, the last is filled up
/// with zeros. Between the two kernels a sum has the type of its accumulator.
/// Emits an error if the target wants a part that no sum of that length has.
mlir::LogicalResult splitLongSums(mlir::func::FuncOp function,
                                  target::KernelTarget target);

} // namespace polyrank::codegen
