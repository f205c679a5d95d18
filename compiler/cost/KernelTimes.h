// The times of a block's ops before they are commands, as the kernels that they
// will become.

#pragma once

#include "compiler/cost/Machine.h"

namespace polyrank::cost {

/// Picoseconds of one execution of each op of the block on one device.
///
/// Products and attention are calls, and take what cost::getOpTime says; so do
/// movements. All other ops become kernels, which take the time of the bytes
/// that they read and write: ops between the same calls are one kernel, so what
/// one of them computes for another is neither written nor read, and what
/// several of them read is read once. (`form-kernels` decides in detail, by
/// rules of the target; this is an estimate of its result.)
llvm::DenseMap<mlir::Operation *, double>
getKernelTimes(mlir::Block &block, const Machine &machine,
               const CostModel *model);

} // namespace polyrank::cost
