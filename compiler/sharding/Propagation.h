// Propagation of layouts: from a side table over the values of a program to a
// layout of each value. Each step hands its result to the next, and none
// changes what an earlier one made:
//
//  1. SideTable: the program as nodes and values, the constraints, the
//  sub-axes.
//  2. Reach: what *may* be split.
//  3. Extents: how large padded dims that are connected are.
//  4. Candidates: per node, the layouts of its operands and results.
//  5. Solution: one candidate per node, so that the objective is least. If it
//  needs
//     less padding than all that might be split, 3 to 5 run again.
//  6. WriteLayouts: types and sharding.reshard ops.

#pragma once

#include "compiler/sharding/Extents.h"
#include "compiler/sharding/Solution.h"

namespace polyrank::sharding {

struct Propagated {
  SideTable table;
  Reach reach;
  Extents extents;
  Candidates candidates;
  Solution solution;
};

/// Runs steps 2 to 5. Emits an error if something cannot be laid out.
mlir::FailureOr<Propagated> solveLayouts(SideTable table);

/// Runs steps 1 to 5 for the ops of readParts.
mlir::FailureOr<Propagated>
solveParts(MeshAttr mesh, llvm::ArrayRef<mlir::Operation *> ops,
           const llvm::MapVector<mlir::Value, LayoutAttr> &wanted,
           llvm::StringRef reason = "", bool isUpdate = false);

} // namespace polyrank::sharding
