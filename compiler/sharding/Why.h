// What moves, and why.

#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace polyrank::sharding {

/// Prints, for each collective of the module: its kind, axes, bytes and
/// executions per step, from which layout to which, the ops that stand on both
/// sides and the constraint that forced it; then the products that run whole on
/// every device of an axis because no constraint reaches them.
void printWhy(mlir::ModuleOp module, llvm::raw_ostream &out);

} // namespace polyrank::sharding
