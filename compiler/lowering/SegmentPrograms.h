// What ranks say to each other in each segment of a function.

#pragma once

#include "dialects/rank/Programs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/progress/RankPrograms.h"

namespace polyrank::lowering {

/// The collectives and waits of one segment (before the microbatches, the
/// first, the rest, the last and the update), in order. All ranks run the same.
struct SegmentPrograms {
  progress::RankPrograms ranks;
  llvm::SmallVector<mlir::Operation *> commands; // of the one program
};

/// Of a function that all ranks run. Fails, with an error at the command, where
/// commands communicate over different meshes, where a wait stands in another
/// segment than what it waits for, or where something is sent or received.
mlir::FailureOr<std::vector<SegmentPrograms>>
getSegmentPrograms(mlir::func::FuncOp function);

/// The parts of which such programs are made.
progress::Mesh getMesh(sharding::MeshAttr mesh);
progress::Group getGroup(rank::AxesAttr axes);
progress::Movement getMovement(rank::CollectiveOp op);
/// Of a send or receive, which `op` is. It has the room of its channel.
progress::Movement getMovement(const rank::Transfer &transfer,
                               mlir::Operation *op);

/// The errors of what does not fit into such programs.
mlir::InFlightDiagnostic emitWaitsElsewhere(rank::WaitOp op);
mlir::InFlightDiagnostic emitOtherMesh(mlir::Operation *op,
                                       sharding::MeshAttr mesh,
                                       sharding::MeshAttr others);

} // namespace polyrank::lowering
