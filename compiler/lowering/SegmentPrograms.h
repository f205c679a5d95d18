// The communication of the ranks in each segment of a function.

#pragma once

#include "dialects/rank/Programs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/progress/RankPrograms.h"

namespace polyrank::lowering {

/// The collectives and waits of one segment (before the microbatches, the
/// first, the middle ones, the last and the update), in order. All ranks run
/// the same.
struct SegmentPrograms {
  progress::RankPrograms ranks;
  llvm::SmallVector<mlir::Operation *> commands; // of the one program
};

/// Returns the programs of a function that all ranks run. Fails, with an error
/// at the command, if commands communicate over different meshes, if a wait is
/// in another segment than the start that it waits for, or if the function
/// sends or receives.
mlir::FailureOr<std::vector<SegmentPrograms>>
getSegmentPrograms(mlir::func::FuncOp function);

/// The parts of which such programs are made.
progress::Mesh getMesh(sharding::MeshAttr mesh);
progress::Group getGroup(rank::AxesAttr axes);
progress::Movement getMovement(rank::CollectiveOp op);
/// The movement of `op`, a send or receive. It has the memory of its channel.
progress::Movement getMovement(const rank::Transfer &transfer,
                               mlir::Operation *op);

/// The errors for ops that do not fit into such programs.
mlir::InFlightDiagnostic emitWaitsElsewhere(rank::WaitOp op);
mlir::InFlightDiagnostic emitOtherMesh(mlir::Operation *op,
                                       sharding::MeshAttr mesh,
                                       sharding::MeshAttr others);

} // namespace polyrank::lowering
