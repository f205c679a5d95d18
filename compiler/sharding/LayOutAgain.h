// Chooses layouts again for ops among others that keep their layouts.

#pragma once

#include "dialects/sharding/Sharding.h"

namespace polyrank::sharding {

/// Chooses layouts for `ops`, which are in the order of their block, again. The
/// layouts of their operands and those that other users want of their results
/// stay. Reshards among `ops` are erased; new ones name the constraint
/// `reason`.
mlir::LogicalResult layOutAgain(llvm::ArrayRef<mlir::Operation *> ops,
                                MeshAttr mesh, llvm::StringRef reason);

} // namespace polyrank::sharding
