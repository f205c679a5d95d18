// Queries on commands, for the passes that order them.

#pragma once

#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::overlap {

/// Visits the ranges of a block, bounded by its microbatch loop and its end, in
/// order. Before that, views are moved to just before their first readers: they
/// cost nothing and cannot overlap with anything. `visitPart` gets each segment
/// of the loop and the number of its runs.
void forEachRange(
    mlir::Block &block,
    llvm::function_ref<void(mlir::Block::iterator begin,
                            mlir::Block::iterator end)>
        visit,
    llvm::function_ref<void(mlir::Block &part, int64_t runs)> visitPart);

/// Returns true if the results need more memory than the operands, as those of
/// a gather do.
bool grows(rank::CollectiveOp op);

/// Returns true if a launch only combines results of collectives with values
/// from outside the range, such as adding a microbatch's reduced gradient to
/// the sum. Deferring such a launch until the collectives have ended keeps
/// nothing else in memory.
bool addsReduced(mlir::Operation *op,
                 llvm::function_ref<bool(mlir::Operation *)> isInRange);

/// The value that `value` is a view of, or else `value` itself.
mlir::Value getViewed(mlir::Value value);

/// The block argument whose buffer this operand of the terminator takes, if
/// there is one: that of the next value of a parameter, or of a sum.
mlir::Value getReplaced(mlir::Block &block, unsigned number);

} // namespace polyrank::overlap
