// Every pass and pipeline of the compiler, registered by its command-line name.

#pragma once

#include "compiler/codegen/Passes.h"
#include "compiler/evaluate/Passes.h"
#include "compiler/lowering/Stage.h"
#include "compiler/overlap/Passes.h"
#include "compiler/sharding/Stage.h"
#include "compiler/stages/Passes.h"
#include "compiler/training/Stage.h"
#include "mlir/Pass/PassRegistry.h"

namespace polyrank {

inline void registerPasses() {
  codegen::registerCodegenPasses();
  evaluate::registerEvaluatePasses();
  lowering::registerLoweringPasses();
  stages::registerStagesPasses();
  overlap::registerOverlapPasses();
  sharding::registerShardingPasses();
  training::registerTrainingPasses();
  mlir::PassPipelineRegistration<training::TrainingStageOptions>(
      "training-stage", "From the model's function to a training step",
      [](mlir::OpPassManager &manager,
         const training::TrainingStageOptions &options) {
        training::trainingStage(manager, options.get());
      });
  mlir::PassPipelineRegistration<sharding::PartitionStageOptions>(
      "partition-stage", "From layouts to collectives",
      [](mlir::OpPassManager &manager,
         const sharding::PartitionStageOptions &options) {
        sharding::partitionStage(manager, options.get());
      });
  mlir::PassPipelineRegistration<lowering::LoweringStageOptions>(
      "lowering-stage", "From a partitioned step to one device's commands",
      lowering::loweringStage);
}

} // namespace polyrank
