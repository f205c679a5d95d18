// What ranks say to each other in each segment of a function.

#pragma once

#include "compiler/communication/RankPrograms.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::lowering {

/// The collectives and waits of one segment (before the microbatches, the
/// first, the rest, the last and the update), in order. All ranks run the same.
struct SegmentPrograms {
  communication::RankPrograms ranks;
  llvm::SmallVector<mlir::Operation *> commands; // of the one program
};

/// Of a function that communicates. Fails, with an error at the command, where
/// commands communicate over different meshes, or where a wait stands in
/// another segment than what it waits for.
mlir::FailureOr<std::vector<SegmentPrograms>>
getSegmentPrograms(mlir::func::FuncOp function);

} // namespace polyrank::lowering
