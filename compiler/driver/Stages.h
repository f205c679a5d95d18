// The stages that a compilation and a description of a model share.

#pragma once

#include "compiler/driver/Driver.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Layout.h"
#include "frontends/onnx/Import.h"
#include "mlir/Pass/PassManager.h"
#include "support/Result.h"

namespace polyrank::driver {

/// The dialects of every stage.
mlir::DialectRegistry getRegistry();

/// What the plan is for: `--cpu`.
rank::CpuAttr getTarget(mlir::MLIRContext &context, const Options &options);
/// Whether there can be code for it.
Result<void> checkTarget(mlir::MLIRContext &context, const Options &options);

/// What the importer has to know.
Result<frontends::ImportOptions> readImportOptions(const Options &options);

/// Every tensor of the model must have elements: there is no block of nothing.
mlir::LogicalResult checkElements(mlir::ModuleOp module);

/// What this machine has to say to so many ranks, unless `options` say that
/// others are meant: nothing, a warning, or why nobody can mean it.
struct CrowdCheck {
  std::string warning, error;
};
CrowdCheck checkCrowd(const Options &options, int64_t ranks);

/// The axis of the mesh along which stages lie; -1: there is none, or it has
/// one rank. Fails where the mesh has none of the name that the user gave, or
/// where options of a pipeline have no axis.
Result<int32_t> findPipeAxis(const Options &options, sharding::MeshAttr mesh);

/// From @forward to @step; without a loss (and then without training) too.
/// `mesh` has a pipe axis or needs none (findPipeAxis).
void addTraining(mlir::OpPassManager &manager, const Options &options,
                 sharding::MeshAttr mesh);
/// From the user's constraints (`--shard`, `--shard-file`, `--batch-axes`) to
/// layouts. The module has its mesh already.
void addPropagation(mlir::OpPassManager &manager, const Options &options);
/// From layouts to collectives.
void addPartition(mlir::OpPassManager &manager, const Options &options);

} // namespace polyrank::driver
