// Layouts for ops that stand between others that have theirs.

#pragma once

#include "dialects/sharding/Sharding.h"

namespace polyrank::sharding {

/// Lays `ops` out again, in the order of their block, between the layouts of
/// what they take and of what takes their results, which stay. Reshards among
/// them go. `reason` is the constraint that new ones name.
mlir::LogicalResult layOutAgain(llvm::ArrayRef<mlir::Operation *> ops,
                                MeshAttr mesh, llvm::StringRef reason);

} // namespace polyrank::sharding
