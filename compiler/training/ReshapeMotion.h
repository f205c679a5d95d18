// Moving reshapes that merge dims down a program.
//
// A reshape of [8, 16, 32] to [128, 32] merges two dims. An op that treats
// each of the 128 rows alone can work on the 8 x 16 rows instead, and its
// result be merged: the reshape has moved down. Below it meets the reshape that
// takes the dim apart again, and both go away.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::training {

/// A minimal run of source dims with as many elements as a run of result dims.
/// Dims of size 1 without a counterpart make groups with one side empty.
struct ReshapeGroup {
  llvm::SmallVector<int64_t> source, result;
  /// Several source dims become one.
  bool isMerge() const { return source.size() > 1 && result.size() == 1; }
};
llvm::SmallVector<ReshapeGroup> getGroups(llvm::ArrayRef<int64_t> source,
                                          llvm::ArrayRef<int64_t> result);

/// For each dim of a tensor the sizes into which it is taken apart; a dim that
/// stays has its own size.
using DimSplits = llvm::SmallVector<llvm::SmallVector<int64_t>>;

/// Whether the op can work on the parts of this operand's dim.
bool canSplitDim(mlir::Operation *op, unsigned operand, int64_t dim,
                 llvm::ArrayRef<int64_t> sizes);

/// Replaces the op by one that works on the parts of these dims of an operand,
/// which is returned, and its results by merges of the new ones. The merges are
/// marked: see `moveMergesDown`. Other operands that have the dims are taken
/// apart as well.
mlir::Operation *splitDims(mlir::Operation *op, unsigned operand,
                           const DimSplits &splits);

/// Moves merges down to where they meet their opposite or cannot move on, and
/// folds reshapes of reshapes. A group of a reshape moves if the reshape is
/// marked or `shouldMove(reshape, group, use)` says so.
void moveMergesDown(
    mlir::Block &block,
    llvm::function_ref<bool(graph::ReshapeOp, const ReshapeGroup &,
                            mlir::OpOperand &)>
        shouldMove);

/// Ops that compute each element of the result from the operands' elements at
/// the same index (dropout: and from the index).
bool isElementwise(mlir::Operation *op);

} // namespace polyrank::training
