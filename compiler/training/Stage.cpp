// The order of the training passes.

#include "compiler/training/Stage.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace polyrank;

void training::prepareForward(OpPassManager &manager,
                              const TrainingOptions &options) {
  manager.addPass(createRaiseCompositesPass());
  manager.addPass(createUnflattenPass());
  manager.addPass(createFindLogicalParametersPass());
  manager.addPass(createCSEPass());
  if (!options.loss.loss.empty() || !options.loss.metrics.empty())
    manager.addPass(createAttachLossPass(options.loss));
}

void training::differentiate(OpPassManager &manager,
                             const TrainingOptions &options) {
  bool hasStages = options.stages.ranks > 1;
  if (hasStages) {
    manager.addPass(stages::createAssignStages(options.stages));
    manager.addPass(stages::createInsertTransfers());
  }
  manager.addPass(createBuildStepPass(options.step));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createLowerPrecisionPass(options.precision));
  if (hasStages)
    manager.addPass(stages::createJoinStages());
}

void training::trainingStage(OpPassManager &manager,
                             const TrainingOptions &options) {
  prepareForward(manager, options);
  differentiate(manager, options);
}

training::TrainingOptions training::TrainingStageOptions::get() const {
  TrainingOptions options;
  options.loss.loss = loss;
  llvm::append_range(options.loss.metrics, metrics);
  options.stages.axis = pipeAxis;
  options.stages.ranks = pipeRanks;
  options.stages.chunks = chunks;
  options.stages.stages = stages;
  llvm::append_range(options.stages.patterns, stagePatterns);
  options.stages.schedule = pipeSchedule;
  options.stages.train = mode != "forward";
  options.stages.microbatches = microbatches;
  options.step.mode = mode;
  options.step.optimizer = optimizer;
  options.step.clipNorm = clipNorm;
  options.step.clipNormType = clipNormType;
  options.step.clipValue = clipValue;
  options.step.schedule = schedule;
  llvm::append_range(options.step.groups, groups);
  options.step.ema = ema;
  options.step.lossScale = lossScale;
  options.step.skipNonfinite = skipNonfinite;
  options.step.microbatches = microbatches;
  options.precision.precision = precision;
  options.precision.fp32 = fp32;
  options.precision.reduceDtype = reduceDtype;
  return options;
}
