// The stages of the compiler, shared by the compilation and --describe.

#include "compiler/driver/Stages.h"

#include "compiler/sharding/Stage.h"
#include "compiler/target/Targets.h"
#include "compiler/training/Stage.h"
#include "dialects/Register.h"
#include "dialects/graph/Boundary.h"
#include "mlir/Transforms/Passes.h"
#include "support/Cores.h"
#include "support/KeyValue.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

DialectRegistry polyrank::driver::getRegistry() {
  DialectRegistry registry;
  registerDialects(registry);
  target::registerTargets(registry);
  return registry;
}

Result<Attribute> polyrank::driver::findTarget(MLIRContext &context,
                                               const Options &options) {
  auto target = target::parseTarget(context, options.targetText());
  if (!target)
    return Error{(options.given.count("gpu-arch") ? "--gpu-arch: "
                  : options.given.count("target") ? "--target: "
                                                  : "--cpu: ") +
                 target.error().message};
  if (!options.given.count("target") || !options.given.count("cpu"))
    return target;
  auto other = target::parseTarget(context, "cpu:" + options.cpu);
  if (other && *other == *target)
    return target;
  return Error{"--target " + options.target + " and --cpu " + options.cpu +
               " name two targets: --cpu " + options.cpu +
               " is short for --target cpu:" + options.cpu + "; give one"};
}

/// Reads `--batch-norm` and `--dropout`.
static Result<void> readLayerOptions(const Options &options,
                                     frontends::ImportOptions &result) {
  StringRef norm = options.batchNorm, dropout = options.dropout;
  result.training = !options.forward;
  if (options.trainLayers || options.evalLayers)
    result.trainingMode = options.trainLayers;
  if (norm.consume_front("local=")) {
    result.batchNorm = frontends::BatchNorm::Batch;
    if (norm.getAsInteger(10, result.batchNormGroup) ||
        result.batchNormGroup < 1)
      return Error{"--batch-norm: 'local=" + norm.str() +
                   "' needs a number of samples, for instance local=8"};
  } else if (norm == "batch") {
    result.batchNorm = frontends::BatchNorm::Batch;
  } else if (norm == "frozen") {
    result.batchNorm = frontends::BatchNorm::Frozen;
  } else if (!norm.empty()) {
    return Error{
        "--batch-norm: unknown '" + norm.str() +
        "'; there are: batch, local=G, frozen" +
        nearestWords(norm.split('=').first, {"batch", "local", "frozen"})};
  }
  double rate = 0;
  if (dropout == "off") {
    result.dropout = 0;
  } else if (!dropout.empty()) {
    if (dropout.getAsDouble(rate) || !(rate >= 0 && rate < 1))
      return Error{"--dropout: '" + dropout.str() +
                   "' is neither 'off' nor a rate in [0, 1)" +
                   nearestWords(dropout, {"off"})};
    result.dropout = rate;
  }
  return {};
}

Result<frontends::ImportOptions>
polyrank::driver::readImportOptions(const Options &options) {
  frontends::ImportOptions result;
  for (const std::string &text : options.inputs) {
    POLYRANK_ASSIGN(input, frontends::parseInputSpec(text));
    result.inputs[input.first] = input.second;
  }
  for (const std::string &text : options.dims) {
    constexpr PairForm form{"NAME=SIZE", "batch=8"};
    auto pair = parsePair(text, form);
    if (!pair)
      return Error{"--dim: " + pair.error().message};
    auto size = integerOf(pair->value);
    if (!size || *size < 1)
      return Error{"--dim: " + notPair(text, form).message};
    if (auto [known, isNew] = result.dims.try_emplace(pair->key, *size);
        !isNew && known->second != *size)
      return Error{"--dim: '" + std::string(pair->key) + "' is both " +
                   std::to_string(known->second) + " and " +
                   std::to_string(*size)};
  }
  result.tie = !options.noTie;
  result.detach = options.detach;
  result.freeze = options.freeze;
  result.trainOnly = options.trainOnly;
  result.params = options.params;
  result.abstractWeights = options.abstractWeights;
  if (auto read = readLayerOptions(options, result); !read)
    return read.error();
  return result;
}

LogicalResult polyrank::driver::checkElements(ModuleOp module) {
  auto isEmpty = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && llvm::is_contained(tensor.getShape(), 0);
  };
  auto reject = [](Location location, const Twine &what, Type type) {
    emitError(location) << what << " is a tensor without elements, " << type
                        << ", which cannot be compiled; export the model with "
                           "dims that are not 0";
    return failure();
  };
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  graph::Boundary boundary(forward);
  // An empty parameter that nothing uses is allowed and saved as it is: what it
  // was joined with was the whole (MobileBERT's embeddings).
  auto isHeldOnly = [&](unsigned i) {
    return boundary.getArgument<graph::ParameterAttr>(i) &&
           forward.getArgument(i).use_empty();
  };
  for (auto [i, type] : llvm::enumerate(forward.getArgumentTypes()))
    if (isEmpty(type) && !isHeldOnly(i))
      return reject(forward.getLoc(), boundary.describe(i), type);
  for (auto [i, type] : llvm::enumerate(forward.getResultTypes()))
    if (auto output = boundary.getResult<graph::OutputAttr>(i);
        output && isEmpty(type))
      return reject(forward.getLoc(),
                    "output `" + output.getName().getValue() + "`", type);
  for (Operation &op : forward.getBody().front())
    for (Type type : op.getResultTypes())
      if (isEmpty(type))
        return reject(op.getLoc(), "its result", type);
  return success();
}

static bool isForThisMachine(const Options &options) {
  std::string text = options.targetText();
  auto [name, machine] = StringRef(text).split(':');
  return name == "cpu" && (machine.empty() || machine == "native");
}

CrowdCheck polyrank::driver::checkCrowd(const Options &options, int64_t ranks) {
  if (!isForThisMachine(options) || !options.links.empty() ||
      !options.machine.empty() || options.abstractWeights)
    return {}; // the plan is for other machines
  Crowd crowd = crowdOf(ranks, options.threads);
  if (crowd == Crowd::Usual)
    return {};
  auto count = [](int64_t number, const char *thing) {
    return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
  };
  std::string text = "--mesh, --threads: " + count(ranks, "rank") + " x " +
                     count(options.threads, "thread"),
              cores = std::to_string(usableCores()) + " cores of this machine";
  if (crowd == Crowd::Senseless)
    return {{},
            text + " cannot be meant for the " + cores +
                "; if the plan is for others, say what CPU they have (--cpu "
                "x86-64-v3) or how they are linked (--link)"};
  return {text + " will take turns on the " + cores, {}};
}

void polyrank::driver::addPropagation(OpPassManager &manager,
                                      const Options &options) {
  sharding::ApplyStrategyOptions strategy;
  llvm::append_range(strategy.shards, options.strategy.shards);
  strategy.file = options.strategy.shardFile;
  strategy.batchAxes = options.strategy.batchAxes;
  manager.addPass(sharding::createApplyStrategy(strategy));
  manager.addNestedPass<func::FuncOp>(
      sharding::createPropagateLayouts({/*report=*/true}));
}

void polyrank::driver::addPartition(OpPassManager &manager,
                                    const Options &options) {
  sharding::PartitionOptions partition;
  partition.recompute = {options.strategy.recompute,
                         options.strategy.recomputeGathers};
  partition.updates = {options.strategy.zero, options.strategy.zeroAxes,
                       options.strategy.zeroThreshold,
                       options.strategy.zeroAccumulate,
                       options.strategy.zeroGather};
  // Collectives that are waited for at once have nothing to hide behind.
  bool waits =
      !options.strategy.overlap && options.strategy.bucketMegabytes == "auto";
  partition.buckets = {waits ? "25" : options.strategy.bucketMegabytes};
  sharding::partitionStage(manager, partition);
}

static void setStages(const Options &options, sharding::MeshAttr mesh,
                      stages::AssignStagesOptions &stages) {
  Result<int32_t> axis = options.strategy.findPipeAxis(mesh);
  if (!axis || *axis < 0)
    return;
  stages.axis = mesh.getAxisNames()[*axis].str();
  stages.ranks = mesh.getAxisSizes()[*axis];
  stages.schedule = options.strategy.getSchedule();
  stages.chunks = options.strategy.getChunks();
  if (!options.strategy.stages.empty())
    stages.stages = options.strategy.stages;
  llvm::append_range(stages.patterns, options.strategy.stagePatterns);
  stages.train = !options.forward;
  stages.microbatches = options.strategy.microbatches;
}

static training::TrainingOptions readTraining(const Options &options,
                                              sharding::MeshAttr mesh) {
  training::TrainingOptions training;
  setStages(options, mesh, training.stages);
  training.loss.loss = options.loss;
  llvm::append_range(training.loss.metrics, options.metrics);
  training.step.mode = options.forward ? "forward" : "train";
  training.step.optimizer = options.optimizer;
  training.step.schedule = options.lrSchedule;
  llvm::append_range(training.step.groups, options.groups);
  training.step.clipNorm = options.clipNorm;
  training.step.clipNormType = options.clipNormType;
  training.step.clipValue = options.clipValue;
  training.step.ema = options.ema;
  // Gradients of fp16 vanish where those of bf16 do not.
  bool vanish = options.strategy.precision == "fp16" && !options.forward;
  training.step.lossScale =
      options.lossScale.empty() && vanish ? "dynamic" : options.lossScale;
  training.step.skipNonfinite = options.skipNonfinite;
  training.step.microbatches = options.strategy.microbatches;
  training.precision.precision = options.strategy.precision;
  training.precision.fp32 = options.strategy.fp32;
  training.precision.reduceDtype = options.strategy.reduceDtype;
  return training;
}

void polyrank::driver::addTraining(OpPassManager &manager,
                                   const Options &options,
                                   sharding::MeshAttr mesh) {
  training::trainingStage(manager, readTraining(options, mesh));
}

void polyrank::driver::addForward(OpPassManager &manager,
                                  const Options &options,
                                  sharding::MeshAttr mesh) {
  training::prepareForward(manager, readTraining(options, mesh));
}

void polyrank::driver::addDifferentiation(OpPassManager &manager,
                                          const Options &options,
                                          sharding::MeshAttr mesh) {
  training::differentiate(manager, readTraining(options, mesh));
}
