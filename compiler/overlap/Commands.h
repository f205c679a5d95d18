// What passes that order commands ask of them.

#pragma once

#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::overlap {

/// Visits the ranges of a block that its loop and its end bound, in order, when
/// views stand in front of their first readers: they cost nothing and are no
/// use. `visitPart` is shown each segment of the loop, and how often it runs.
void forEachRange(
    mlir::Block &block,
    llvm::function_ref<void(mlir::Block::iterator begin,
                            mlir::Block::iterator end)>
        visit,
    llvm::function_ref<void(mlir::Block &part, int64_t runs)> visitPart);

/// Whether the results need more memory than the operands, as of a gather.
bool grows(rank::CollectiveOp op);

/// Whether a launch only brings what collectives reduced together with values
/// from outside of the range, as adding a microbatch's gradient to the sum: put
/// off until these have ended it keeps nothing else in memory.
bool addsReduced(mlir::Operation *op,
                 llvm::function_ref<bool(mlir::Operation *)> isInRange);

/// The value whose bytes it is: what it is a view of, or else itself.
mlir::Value getViewed(mlir::Value value);

/// The argument of the block in whose place this operand of its terminator is
/// kept, where there is one: the next value of a parameter, or a sum.
mlir::Value getReplaced(mlir::Block &block, unsigned number);

} // namespace polyrank::overlap
