// Reports which values move between devices, and why.

#pragma once

#include <string>
#include <vector>

#include "dialects/sharding/Layout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace polyrank::sharding {

/// A layout with dims as --shard has them: `[data+tensor,-]`, `[-,tensor pad
/// 68]`, `[-,-] partial sum over tensor`.
std::string describe(sharding::LayoutAttr layout);
/// `data+tensor`.
std::string describe(sharding::MeshAttr mesh,
                     llvm::ArrayRef<sharding::AxisRef> axes);

/// Matrix products and scans that repeat the same work on all devices of an
/// axis.
struct Replicated {
  std::string ops; // the names of ops that differ only in their layers
  std::string axis;
  std::string parameters; // whose constraint would split the ops; may be empty
  double share;           // of the step's FLOPs
};
/// Finds those that take at least one percent of the step's FLOPs.
std::vector<Replicated> findReplicated(mlir::func::FuncOp function);

/// Prints for each collective of the module: its kind, axes, bytes and
/// executions per step, the layouts before and after, the producer and the
/// user, and the constraint that forced it. Layers that are alike are one
/// entry. Then prints the matrix products that every device of an axis computes
/// whole because no constraint reaches them.
void printWhy(mlir::ModuleOp module, llvm::raw_ostream &out);

} // namespace polyrank::sharding
