// What moves, and why.

#pragma once

#include "dialects/shard/Layout.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace polyrank::sharding {

/// A layout as the user writes dims: `[data+tensor,-]`, `[-,tensor pad 68]`,
/// `[-,-] partial sum over tensor`.
std::string describe(shard::LayoutAttr layout);
/// `data+tensor`.
std::string describe(shard::MeshAttr mesh,
                     llvm::ArrayRef<shard::AxisRef> axes);

/// `matmul 'transformer.h.0.mlp.c_fc/node_addmm_2'`: the op's kind and the
/// user's node.
std::string describe(mlir::Operation *op);

/// Prints, for each collective of the module: its kind, axes, bytes and
/// executions per step, from which layout to which, the ops that stand on both
/// sides and the constraint that forced it. Layers that are alike are one
/// entry. Then the products that run whole on every device of an axis because
/// no constraint reaches them.
void printWhy(mlir::ModuleOp module, llvm::raw_ostream &out);

} // namespace polyrank::sharding
