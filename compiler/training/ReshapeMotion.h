// Moves reshapes that merge dims down a program.
//
// A reshape of [8, 16, 32] to [128, 32] merges two dims. An op that treats each
// of the 128 rows independently can work on the 8 x 16 rows instead, and its
// result be merged: the reshape has moved down. Further down it meets the
// reshape that splits the dim again, and both vanish.

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

/// For each dim of a tensor the sizes into which it is split; an unsplit dim
/// has its own size.
using DimSplits = llvm::SmallVector<llvm::SmallVector<int64_t>>;

/// Returns true if the op can work on the parts of this operand's dim.
bool canSplitDim(mlir::Operation *op, unsigned operand, int64_t dim,
                 llvm::ArrayRef<int64_t> sizes);

/// Replaces the op by one that works on the parts of these dims of an operand,
/// and returns it. The old results are replaced by merges of the new ones. The
/// merges are marked: see `moveMergesDown`. Other operands that have the dims
/// are split too.
mlir::Operation *splitDims(mlir::Operation *op, unsigned operand,
                           const DimSplits &splits);

/// Moves merges down until they meet their inverse or an op that stops them,
/// and folds reshapes of reshapes. A group of a reshape moves if the reshape is
/// marked or `shouldMove(reshape, group, use)` returns true.
void moveMergesDown(
    mlir::Block &block,
    llvm::function_ref<bool(graph::ReshapeOp, const ReshapeGroup &,
                            mlir::OpOperand &)>
        shouldMove);

/// Returns true for ops that compute each element of the result from the
/// operands' elements at the same index (for dropout: and from the index).
bool isElementwise(mlir::Operation *op);

} // namespace polyrank::training
