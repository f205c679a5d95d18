// Builds @step from @forward: gradients, microbatches, optimizer.

#include "compiler/training/Passes.h"
#include "compiler/training/StepBuilder.h"
#include "dialects/graph/Forward.h"
#include "dialects/graph/ParameterSymbols.h"
#include "dialects/graph/Symbols.h"
#include "support/Names.h"
#include "llvm/Support/InterleavedRange.h"

namespace polyrank::training {
#define GEN_PASS_DEF_BUILDSTEPPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

namespace {
class BuildStep : public training::impl::BuildStepPassBase<BuildStep> {
public:
  using BuildStepPassBase::BuildStepPassBase;
  void runOnOperation() override;
};
} // namespace

LogicalResult StepBuilder::classify() {
  graph::Symbols symbols(module);
  for (BlockArgument argument : forward.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (auto input = boundary().getArgument<graph::InputAttr>(number)) {
      if (graph::getGlobalType(argument).getRank() == 0)
        return forward.emitError("input '") << input.getName().getValue()
                                            << "' is one number; an input has "
                                               "a dim 0: the batch, or one row "
                                               "(no_batch)";
      forwardInputs.push_back(argument);
      if (!input.hasBatch())
        continue;
      int64_t rows = graph::getShape(argument)[0];
      if (firstBatched && graph::getShape(firstBatched)[0] != rows)
        return forward.emitError("input '")
               << input.getName().getValue() << "' has a batch (dim 0) of "
               << rows << ", but input '"
               << boundary().getName(firstBatched.getArgNumber())
               << "' has one of " << graph::getShape(firstBatched)[0]
               << "; the batch is the first dim of each input";
      if (!firstBatched)
        firstBatched = argument;
      continue;
    }
    if (boundary().getArgument<graph::CounterAttr>(number))
      continue;
    auto role = boundary().getArgument<graph::ParameterAttr>(number);
    if (!role)
      return forward.emitError("argument ")
             << number << " is no parameter, input or counter (graph.role)";
    StringRef symbol = role.getSymbol().getValue();
    auto stored = symbols.lookup<graph::ParameterOp>(role.getSymbol());
    if (!stored)
      return forward.emitError("argument ") << number << " names @" << symbol
                                            << ", which is no graph.parameter";
    Parameter &parameter = parameters.emplace_back();
    parameter.forward = argument;
    parameter.stored = stored;
    parameter.name = graph::nameOf(symbol).str();
    parameter.names = getNames(stored);
    parameter.trainable =
        stored.getTrainable() &&
        isa<FloatType>(graph::getGlobalType(argument).getElementType());
    if (std::optional<unsigned> update = boundary().getNext(number))
      parameter.update = *update;
  }
  return findMeans();
}

BlockArgument StepBuilder::addArgument(Type type, Attribute role) {
  graph::Boundary boundary(step);
  BlockArgument argument = boundary.insertArgument(
      step.getNumArguments(), type, role, builder.getUnknownLoc());
  argument.setLoc(NameLoc::get(
      builder.getStringAttr(boundary.getName(argument.getArgNumber()))));
  return argument;
}

void StepBuilder::createFunction(const Optimizer *optimizer, const Ema &ema) {
  builder.setInsertionPoint(forward);
  step = func::FuncOp::create(builder, forward.getLoc(), "step",
                              builder.getFunctionType({}, {}));
  step.addEntryBlock();
  auto addState = [&](Type type, OptimizerState state, FlatSymbolRefAttr of,
                      DenseI64ArrayAttr view) {
    return addArgument(
        type, graph::StateAttr::get(builder.getContext(),
                                    builder.getStringAttr(state.name), of, view,
                                    builder.getF64FloatAttr(state.init)));
  };
  auto roleOf = [&](BlockArgument argument) {
    return boundary().getArgument(argument.getArgNumber());
  };
  for (Parameter &parameter : parameters)
    parameter.step =
        addArgument(parameter.forward.getType(), roleOf(parameter.forward));
  for (Parameter &parameter : parameters) {
    if (!optimizer || !parameter.trainable)
      continue;
    auto role = cast<graph::ParameterAttr>(roleOf(parameter.forward));
    auto add = [&](const OptimizerState &state) {
      return addState(parameter.forward.getType(), state, role.getSymbol(),
                      role.getView());
    };
    for (const OptimizerState &state : optimizer->getStates(parameter.stored))
      if (!state.shape)
        parameter.states.push_back(add(state));
    if (ema)
      parameter.average = add({Ema::stateName});
  }
  for (Parameter &parameter : parameters) {
    if (!optimizer || !parameter.trainable)
      continue;
    auto [states, isNew] = storedStates.try_emplace(parameter.stored);
    if (!isNew)
      continue;
    auto role = cast<graph::ParameterAttr>(roleOf(parameter.forward));
    Type element = graph::getGlobalType(parameter.forward).getElementType();
    for (const OptimizerState &state : optimizer->getStates(parameter.stored))
      if (state.shape)
        states->second.push_back(
            addState(RankedTensorType::get(*state.shape, element), state,
                     role.getSymbol(), {}));
  }
  auto integer = RankedTensorType::get({}, builder.getI64Type());
  if (optimizer) {
    stepNumber = addState(integer, {"step"}, {}, {});
    SmallVector<Value> states;
    for (const LossScale::State &state :
         lossScale.getStates(builder.getContext()))
      states.push_back(addState(RankedTensorType::get({}, state.type),
                                {state.name, state.init}, {}, {}));
    lossScale.setStates(states);
    seed = addArgument(integer,
                       graph::CounterAttr::get(builder.getContext(),
                                               graph::RandomCounter::Seed));
    auto number = RankedTensorType::get({}, builder.getF64Type());
    for (Parameter &parameter : parameters)
      if (parameter.trainable) {
        auto role =
            optimizer->getLearningRate(builder.getContext(), parameter.names);
        if (Value &rate = rates[role]; !rate)
          rate = addArgument(number, role);
      }
  }
  for (BlockArgument input : forwardInputs) {
    RankedTensorType type = graph::getGlobalType(input);
    SmallVector<int64_t> shape{microbatches};
    llvm::append_range(shape, type.getShape());
    inputs.push_back(addArgument(
        RankedTensorType::get(shape, type.getElementType()), roleOf(input)));
  }
  builder.setInsertionPointToEnd(&step.getBody().front());
}

void StepBuilder::finish(ValueRange updated, ArrayRef<StepOutput> outputs) {
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  auto add = [&](Value value, Attribute role) {
    results.push_back(value);
    attributes.push_back(graph::Boundary::asDictionary(role));
  };
  graph::Boundary stepBoundary(step);
  auto next = updated.begin();
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (stepBoundary.isKept(i))
      add(*next++, graph::NextAttr::get(builder.getContext(), i));
  for (const StepOutput &output : outputs)
    add(output.value, graph::OutputAttr::get(builder.getStringAttr(output.name),
                                             output.mean, output.batchDim));
  func::ReturnOp::create(builder, parts.location, results);
  step.setType(builder.getFunctionType(step.getArgumentTypes(),
                                       ValueRange(results).getTypes()));
  step.setAllResultAttrs(attributes);
  forward.erase();
  // The gradients are built, so `graph.detach` has no further use.
  step.walk([](graph::DetachOp detach) {
    detach.getResult().replaceAllUsesWith(detach.getInput());
  });
  for (auto microbatch : step.getOps<graph::MicrobatchesOp>())
    graph::eraseDeadOps(microbatch.getBody().front());
  graph::eraseDeadOps(step.getBody().front());
}

LogicalResult StepBuilder::buildTraining(Optimizer &optimizer, const Clip &clip,
                                         const Ema &given,
                                         const LossScale &scaling) {
  Ema ema = given;
  lossScale = scaling;
  if (failed(classify()))
    return failure();
  if (getNumTerms() == 0)
    return forward.emitError("has no loss yet (attach-loss)");
  createFunction(&optimizer, ema);
  auto sums = buildMicrobatches();
  if (failed(sums))
    return failure();
  unsigned next = 0;
  for (Parameter &parameter : parameters)
    if (parameter.trainable)
      parameter.gradient = sums->gradients[next++];
  returnGradients(ArrayRef(sums->gradients).drop_front(next));
  if (llvm::none_of(sums->gradients, [](Value value) { return !!value; }))
    return step.emitError("the loss depends on no trainable parameter");

  // The gradients were divided by the static number of targets; only now is the
  // number of targets that counted known. If none did, each gradient is an
  // empty sum, so zero as in PyTorch, although the loss is the mean of an empty
  // set (NaN). With several terms the counts were known before the
  // microbatches.
  Value factor;
  if (Value count = sums->counts[0]; getNumTerms() == 1 && !isStatic(count))
    factor = parts.div(parts.splat(count, static_cast<double>(means[0].targets *
                                                              microbatches)),
                       parts.add(count, buildIsNone(count)));
  // Clipping by norm, and a decision on whether to update at all, need all
  // gradients before the first update. Otherwise each gradient is taken at its
  // own update.
  SmallVector<Value> gradients;
  if (takesAllGradients(clip))
    for (Parameter &parameter : parameters)
      if (parameter.gradient)
        gradients.push_back(parameter.gradient = takeGradient(parameter));
  Clip::Scale scale = clip.buildScale(parts, gradients, factor);
  // The norm is finite only if each gradient is. Where there is none, the
  // largest element says so.
  if (lossScale.skips())
    lossScale.buildDecision(
        parts, scale.unscaled
                   ? scale.unscaled
                   : buildNorm(parts, Clip::Norm::Infinity, gradients));
  Value updates = lossScale.skips() ? lossScale.getUpdates() : stepNumber;
  optimizer.buildScalars(parts, updates, rates);
  if (ema)
    ema.buildScalars(parts, updates);
  auto updated = buildUpdates(optimizer, clip, scale, ema, sums->carried);
  if (failed(updated))
    return failure();
  updated->push_back(parts.add(stepNumber, 1));
  llvm::append_range(*updated, lossScale.getNextStates());
  auto metrics = buildMetrics(sums->sums, sums->counts);
  if (scale.norm)
    metrics.push_back({"grad_norm", scale.norm});
  for (auto [name, value] : lossScale.getOutputs())
    metrics.push_back({name.str(), value});
  finish(*updated, metrics);
  return success();
}

LogicalResult StepBuilder::buildForward() {
  if (failed(classify()))
    return failure();
  if (microbatches != 1)
    return forward.emitError("mode=forward has one microbatch, not ")
           << microbatches;
  for (auto uniform : forward.getOps<graph::UniformOp>())
    return uniform.emitError("random numbers in mode=forward; export the model "
                             "after model.eval()");
  createFunction(nullptr, {});
  SmallVector<Value> slices;
  for (BlockArgument input : inputs)
    slices.push_back(takeOnly(input));
  sendParameters();
  SmallVector<Value> results = cloneForward(slices, getCarried(), {});
  SmallVector<Value> updated;
  for (Parameter &parameter : parameters)
    updated.push_back(parameter.update < 0 ? Value(parameter.step)
                                           : results[parameter.update]);
  SmallVector<StepOutput> outputs;
  if (!means.empty()) { // a loss is attached, and replaces the outputs
    Sums sums = takeMeans(results);
    outputs = buildMetrics(sums.sums, sums.counts);
    results.clear();
  }
  for (auto [i, value] : llvm::enumerate(results)) {
    if (boundary().getReplaced(i))
      continue; // the new value of a parameter
    auto output = boundary().getResult<graph::OutputAttr>(i);
    if (!output)
      return forward.emitError("result ")
             << i << " is no output or update (graph.role)";
    StringAttr name = output.getName();
    if (graph::getShape(value).empty()) { // one number per batch: a metric
      // Without a loss, outputs named loss and count are the model's own.
      bool isOwn = name == "loss" || name == "count";
      outputs.push_back({isOwn ? name.str() : metricName(name.str()), value});
      continue;
    }
    SmallVector<int64_t> shape{1};
    llvm::append_range(shape, graph::getShape(value));
    if (int64_t batch =
            firstBatched ? graph::getShape(firstBatched)[0] : shape[1];
        shape[1] != batch && output.getBatchDim() != noBatch)
      return forward.emitError("output '")
             << name.getValue() << "' has dims ["
             << llvm::interleaved(graph::getShape(value))
             << "], but the inputs have a batch of " << batch
             << ": the batch is the first dim of each output; leave this one "
                "out of the export, or move its batch to the front";
    outputs.push_back({name.str(),
                       graph::ReshapeOp::create(builder, value.getLoc(), value,
                                                ArrayRef<int64_t>(shape)),
                       graph::MeanKind::Arithmetic, output.getBatchDim()});
  }
  finish(updated, outputs);
  return success();
}

void BuildStep::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<func::FuncOp> forward = graph::getForward(module);
  if (failed(forward))
    return signalPassFailure();
  if (microbatches < 1) {
    module.emitError("--microbatches ") << microbatches << ": must be positive";
    return signalPassFailure();
  }
  StepBuilder steps(module, *forward, microbatches);
  if (mode == "forward") {
    if (failed(steps.buildForward()))
      signalPassFailure();
    return;
  }
  if (mode != "train") {
    module.emitError("--mode ") << mode << ": there are train and forward";
    return signalPassFailure();
  }
  FailureOr<Optimizer> parsed = Optimizer::parse(
      optimizer, [&] { return module.emitError() << "--optimizer: "; });
  if (failed(parsed) || failed(parsed->setSchedule(schedule, [&] {
        return module.emitError() << "--lr-schedule '" << schedule << "': ";
      })))
    return signalPassFailure();
  for (const std::string &group : groups)
    if (failed(parsed->addGroup(group, [&] {
          return module.emitError() << "--group '" << group << "': ";
        })))
      return signalPassFailure();
  FailureOr<Clip> clip = Clip::parse(clipNorm, clipNormType, clipValue,
                                     [&] { return module.emitError(); });
  if (failed(clip))
    return signalPassFailure();
  if (ema != 0 && !(ema > 0 && ema < 1)) {
    module.emitError("--ema ")
        << ema << ": the decay must be more than 0 and less than 1";
    return signalPassFailure();
  }
  FailureOr<LossScale> scaling = LossScale::parse(
      lossScale, skipNonfinite, [&] { return module.emitError(); });
  if (failed(scaling))
    return signalPassFailure();
  SmallVector<Optimizer::Names> names;
  for (auto parameter : module.getOps<graph::ParameterOp>())
    names.push_back({getNames(parameter), parameter.getTrainable()});
  if (failed(
          parsed->checkPatterns(names, [&] { return module.emitError(); })) ||
      failed(steps.buildTraining(*parsed, *clip, {ema}, *scaling)))
    return signalPassFailure();
  parsed->describeGroups(names, [&] { return module.emitRemark(); });
}
