// The stages of the compiler, shared by the compilation and --describe.

#pragma once

#include "compiler/driver/Driver.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Layout.h"
#include "frontends/onnx/Import.h"
#include "mlir/Pass/PassManager.h"
#include "support/Result.h"

namespace polyrank::driver {

/// The dialects of all stages of the compiler.
mlir::DialectRegistry getRegistry();

/// The target of the plan (`--target`, `--cpu`). Fails if there is no such
/// target, if it has no code for the machine, or if the two options differ.
Result<mlir::Attribute> findTarget(mlir::MLIRContext &context,
                                   const Options &options);

/// Reads the options of the importer.
Result<frontends::ImportOptions> readImportOptions(const Options &options);

/// Checks that every tensor of the model has elements, since nothing splits
/// into no blocks.
mlir::LogicalResult checkElements(mlir::ModuleOp module);

/// The message of this machine on so many ranks, unless `options` say that the
/// plan is for other machines: none, a warning, or the reason why the number
/// cannot be meant.
struct CrowdCheck {
  std::string warning, error;
};
CrowdCheck checkCrowd(const Options &options, int64_t ranks);

/// Adds the passes from @forward to @step, also without a loss (and then
/// without training). `Strategy::check` must have accepted the
/// strategy, whose mesh is `mesh`.
void addTraining(mlir::OpPassManager &manager, const Options &options,
                 sharding::MeshAttr mesh);
/// The two parts of these passes: up to a @forward that may be cut, and from
/// the cut on.
/// @{
void addForward(mlir::OpPassManager &manager, const Options &options,
                sharding::MeshAttr mesh);
void addDifferentiation(mlir::OpPassManager &manager, const Options &options,
                        sharding::MeshAttr mesh);
/// @}
/// Adds the passes from the user's constraints (`--shard`, `--shard-file`,
/// `--batch-axes`) to layouts. The module has its mesh already.
void addPropagation(mlir::OpPassManager &manager, const Options &options);
/// Adds the passes from layouts to collectives.
void addPartition(mlir::OpPassManager &manager, const Options &options);

} // namespace polyrank::driver
