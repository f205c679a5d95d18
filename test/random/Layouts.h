// Random meshes, constraints and layouts.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

/// A mesh of one to three axes, and the sub-axes over which its tensors are
/// split: whole axes, or the two parts of an axis of 4 or 6.
struct RandomMesh {
  /// If `pipe` is not 0 there is also an axis of stages of that size.
  RandomMesh(mlir::MLIRContext &context, Random &random, int64_t pipe = 0);

  sharding::MeshAttr mesh;
  llvm::SmallVector<sharding::AxisRef> subAxes;
};

/// Layouts of an op's operands and results that its verifier accepts: each
/// sub-axis splits a factor, passes as a partial in some operands, or is not
/// used; some factors are padded, with the fill that the op needs.
struct Labelling {
  llvm::SmallVector<sharding::LayoutAttr> operands, results;
};
Labelling drawLabelling(graph::GraphOp op, const RandomMesh &mesh,
                        Random &random);

/// Constraints on arguments and ops of @step, for propagate-layouts.
void drawConstraints(mlir::func::FuncOp function, const RandomMesh &mesh,
                     Random &random);
/// A layout of every value of @step, with sharding.reshard between producers
/// and users: a labelling for each op on its own, so that every op meets every
/// layout.
void drawLayouts(mlir::func::FuncOp function, const RandomMesh &mesh,
                 Random &random);

} // namespace polyrank::test
