// The order of the training passes.

#include "compiler/training/Pipeline.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace polyrank;

void training::buildTrainingPipeline(OpPassManager &manager,
                                     const TrainingPipelineOptions &options) {
  manager.addPass(createRaiseCompositesPass());
  manager.addPass(createUnflattenPass());
  manager.addPass(createFindLogicalParametersPass());
  manager.addPass(createCSEPass());
  if (!options.loss.empty())
    manager.addPass(createAttachLossPass({options.loss}));
  manager.addPass(createBuildStepPass(
      {options.mode, options.optimizer, options.microbatches}));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}
