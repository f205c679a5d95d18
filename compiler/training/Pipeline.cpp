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
  if (!options.loss.empty() || !options.metrics.empty()) {
    AttachLossPassOptions loss;
    loss.loss = options.loss;
    loss.metrics.assign(options.metrics.begin(), options.metrics.end());
    manager.addPass(createAttachLossPass(loss));
  }
  BuildStepPassOptions step;
  step.mode = options.mode;
  step.optimizer = options.optimizer;
  step.clipNorm = options.clipNorm;
  step.clipNormType = options.clipNormType;
  step.clipValue = options.clipValue;
  step.schedule = options.schedule;
  step.groups.assign(options.groups.begin(), options.groups.end());
  step.ema = options.ema;
  step.microbatches = options.microbatches;
  manager.addPass(createBuildStepPass(step));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}
