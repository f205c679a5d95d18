// Every pass and pipeline of the compiler, registered by its command-line name.

#pragma once

#include "compiler/codegen/Passes.h"
#include "compiler/evaluate/Passes.h"
#include "compiler/lowering/Pipeline.h"
#include "compiler/overlap/Passes.h"
#include "compiler/sharding/Pipeline.h"
#include "compiler/stages/Passes.h"
#include "compiler/training/Pipeline.h"
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
  mlir::PassPipelineRegistration<training::TrainingPipelineOptions>(
      "training-pipeline", "From the model's function to a training step",
      [](mlir::OpPassManager &manager,
         const training::TrainingPipelineOptions &options) {
        training::buildTrainingPipeline(manager, options.get());
      });
  mlir::PassPipelineRegistration<sharding::PartitionPipelineOptions>(
      "partition-pipeline", "From layouts to collectives",
      [](mlir::OpPassManager &manager,
         const sharding::PartitionPipelineOptions &options) {
        sharding::buildPartitionPipeline(manager, options.get());
      });
  mlir::PassPipelineRegistration<lowering::LoweringPipelineOptions>(
      "lowering-pipeline", "From a partitioned step to one device's commands",
      lowering::buildLoweringPipeline);
}

} // namespace polyrank
