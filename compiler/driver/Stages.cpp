// The stages that a compilation and a description of a model share.

#include "compiler/driver/Stages.h"

#include "compiler/codegen/CompileKernels.h"
#include "compiler/training/Passes.h"
#include "dialects/Register.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/Names.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

DialectRegistry polyrank::driver::getRegistry() {
  DialectRegistry registry;
  registerDialects(registry);
  codegen::registerCodegenDialects(registry);
  return registry;
}

/// `--batch-norm` and `--dropout`. On failure `error` says what is wrong.
static LogicalResult readLayerOptions(const Options &options,
                                      frontends::ImportOptions &result,
                                      std::string &error) {
  StringRef norm = options.batchNorm, dropout = options.dropout;
  result.training = !options.forward;
  if (norm.consume_front("local=")) {
    result.batchNorm = frontends::BatchNorm::Batch;
    if (norm.getAsInteger(10, result.batchNormGroup) ||
        result.batchNormGroup < 1) {
      error = "--batch-norm: 'local=" + norm.str() +
              "' needs a number of samples, for instance local=8";
      return failure();
    }
  } else if (norm == "batch") {
    result.batchNorm = frontends::BatchNorm::Batch;
  } else if (norm == "frozen") {
    result.batchNorm = frontends::BatchNorm::Frozen;
  } else if (!norm.empty()) {
    error = "--batch-norm: unknown '" + norm.str() +
            "'; there are: batch, local=G, frozen" +
            runtime::nearestWords(norm.split('=').first,
                                  {"batch", "local", "frozen"});
    return failure();
  }
  double rate = 0;
  if (dropout == "off") {
    result.dropout = 0;
  } else if (!dropout.empty()) {
    if (dropout.getAsDouble(rate) || !(rate >= 0 && rate < 1)) {
      error = "--dropout: '" + dropout.str() +
              "' is neither 'off' nor a rate in [0, 1)" +
              runtime::nearestWords(dropout, {"off"});
      return failure();
    }
    result.dropout = rate;
  }
  return success();
}

LogicalResult
polyrank::driver::readImportOptions(const Options &options,
                                    frontends::ImportOptions &result,
                                    std::string &error) {
  for (const std::string &text : options.inputs) {
    auto input = frontends::parseInputSpec(text, error);
    if (!input)
      return failure();
    result.inputs[input->first] = input->second;
  }
  for (const std::string &text : options.dims) {
    auto [name, size] = StringRef(text).split('=');
    int64_t value = 0;
    if (name.empty() || size.getAsInteger(10, value) || value < 1) {
      error = "--dim: '" + text + "' is not NAME=SIZE, such as batch=8";
      return failure();
    }
    if (auto [known, isNew] = result.dims.try_emplace(name, value);
        !isNew && known->second != value) {
      error = "--dim: '" + name.str() + "' is both " +
              std::to_string(known->second) + " and " + size.str();
      return failure();
    }
  }
  result.tie = !options.noTie;
  result.detach = options.detach;
  result.freeze = options.freeze;
  result.trainOnly = options.trainOnly;
  result.abstractWeights = options.abstractWeights;
  if (failed(readLayerOptions(options, result, error)))
    return failure();
  if (!StringRef(options.model).ends_with(".onnx")) {
    error = "'" + options.model +
            "' is not an ONNX file (.onnx); export the model with "
            "torch.onnx.export(..., dynamo=True, optimize=False)";
    return failure();
  }
  return success();
}

void polyrank::driver::buildTrainingPipeline(OpPassManager &manager,
                                             const Options &options) {
  manager.addPass(training::createRaiseCompositesPass());
  manager.addPass(training::createUnflattenPass());
  manager.addPass(training::createFindLogicalParametersPass());
  manager.addPass(createCSEPass());
  if (!options.loss.empty()) {
    training::AttachLossPassOptions loss;
    loss.loss = options.loss;
    manager.addPass(training::createAttachLossPass(loss));
  }
  training::BuildStepPassOptions step;
  step.mode = options.forward ? "forward" : "train";
  step.optimizer = options.optimizer;
  step.microbatches = options.microbatches;
  manager.addPass(training::createBuildStepPass(step));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}
