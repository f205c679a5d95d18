// What moves, and why.

#pragma once

#include <string>
#include <vector>

#include "dialects/sharding/Layout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace polyrank::sharding {

/// A layout as the user writes dims: `[data+tensor,-]`, `[-,tensor pad 68]`,
/// `[-,-] partial sum over tensor`.
std::string describe(sharding::LayoutAttr layout);
/// `data+tensor`.
std::string describe(sharding::MeshAttr mesh,
                     llvm::ArrayRef<sharding::AxisRef> axes);

/// Products and scans that repeat the same work on all devices of an axis.
struct Replicated {
  std::string ops; // alike but for their layers
  std::string axis;
  std::string parameters; // that would split them; may be empty
  double share;           // of the step's FLOPs
};
/// Those of at least one percent of the step's FLOPs.
std::vector<Replicated> findReplicated(mlir::func::FuncOp function);

/// Prints, for each collective of the module: its kind, axes, bytes and
/// executions per step, from which layout to which, the ops that stand on both
/// sides and the constraint that forced it. Layers that are alike are one
/// entry. Then the products that run whole on every device of an axis because
/// no constraint reaches them.
void printWhy(mlir::ModuleOp module, llvm::raw_ostream &out);

} // namespace polyrank::sharding
