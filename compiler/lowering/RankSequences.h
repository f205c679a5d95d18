// What each rank says to the others, of a program of one device.

#pragma once

#include "compiler/lowering/Communication.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::lowering {

/// The collectives of one segment (before the microbatches, the first, the rest,
/// the last and the update) as commands, in order.
using SegmentCommands = llvm::SmallVector<rank::CollectiveOp>;
llvm::SmallVector<SegmentCommands> getSegments(mlir::func::FuncOp function);

/// What each rank runs of a segment. Fails, with an error at the command, where
/// commands communicate over different meshes.
mlir::FailureOr<RankSequences>
getRankSequences(llvm::ArrayRef<rank::CollectiveOp> commands);

} // namespace polyrank::lowering
