// Builds @step from @forward: gradients, microbatches, optimizer.

#include "compiler/training/Autodiff.h"
#include "compiler/training/Forward.h"
#include "compiler/training/Passes.h"
#include "compiler/training/StepBuilder.h"
#include "mlir/IR/IRMapping.h"
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
  for (BlockArgument argument : forward.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (auto input = boundary().getArgument<graph::InputAttr>(number)) {
      if (graph::getGlobalType(argument).getRank() == 0)
        return forward.emitError("input '")
               << input.getName().getValue()
               << "' is one number; an input has a batch dim in front, which "
                  "the ranks split: export the model with the number as a "
                  "constant";
      if (BlockArgument first =
              forwardInputs.empty() ? argument : forwardInputs.front();
          graph::getShape(first)[0] != graph::getShape(argument)[0])
        return forward.emitError("input '")
               << input.getName().getValue() << "' has a batch (dim 0) of "
               << graph::getShape(argument)[0] << ", but input '"
               << boundary().getName(first.getArgNumber()) << "' has one of "
               << graph::getShape(first)[0]
               << "; the batch is the first dim of each input";
      forwardInputs.push_back(argument);
      continue;
    }
    if (boundary().getArgument<graph::CounterAttr>(number))
      continue;
    auto role = boundary().getArgument<graph::ParameterAttr>(number);
    if (!role)
      return forward.emitError("argument ")
             << number << " is no parameter, input or counter (graph.role)";
    StringRef symbol = role.getSymbol().getValue();
    auto stored = module.lookupSymbol<graph::ParameterOp>(symbol);
    if (!stored)
      return forward.emitError("argument ") << number << " names @" << symbol
                                            << ", which is no graph.parameter";
    Parameter &parameter = parameters.emplace_back();
    parameter.forward = argument;
    parameter.stored = stored;
    parameter.name = symbol.str();
    parameter.names = getNames(stored);
    parameter.trainable =
        stored.getTrainable() &&
        isa<FloatType>(graph::getGlobalType(argument).getElementType());
    if (std::optional<unsigned> update = boundary().getNext(number))
      parameter.update = *update;
    if (parameter.update >= 0 && parameter.trainable)
      return forward.emitError("both the model and the optimizer update ")
             << parameter.name;
  }
  return findMeans();
}

SmallVector<Value> StepBuilder::getCarried() {
  SmallVector<Value> carried;
  for (Parameter &parameter : parameters)
    if (parameter.update >= 0)
      carried.push_back(parameter.step);
  return carried;
}

BlockArgument StepBuilder::addArgument(Type type, Attribute role) {
  graph::Boundary boundary(step);
  BlockArgument argument = boundary.insertArgument(
      step.getNumArguments(), type, role, builder.getUnknownLoc());
  argument.setLoc(NameLoc::get(
      builder.getStringAttr(boundary.getName(argument.getArgNumber()))));
  return argument;
}

void StepBuilder::createFunction(const Optimizer *optimizer,
                                 const Ema &ema) {
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
    seed = addArgument(integer,
                       graph::CounterAttr::get(builder.getContext(),
                                               graph::RandomCounter::Seed));
    auto number = RankedTensorType::get({}, builder.getF64Type());
    for (Parameter &parameter : parameters)
      if (parameter.trainable) {
        auto role = optimizer->getLearningRate(builder.getContext(),
                                               parameter.names);
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

SmallVector<Value> StepBuilder::cloneForward(ValueRange slices,
                                             ValueRange carried, Value index,
                                             ArrayRef<unsigned> only) {
  IRMapping mapping;
  auto next = carried.begin();
  for (Parameter &parameter : parameters)
    mapping.map(parameter.forward,
                parameter.update < 0 ? Value(parameter.step) : *next++);
  mapping.map(ValueRange(SmallVector<Value>(forwardInputs.begin(),
                                            forwardInputs.end())),
              slices);
  for (BlockArgument argument : forward.getArguments())
    if (auto counter =
            boundary().getArgument<graph::CounterAttr>(argument.getArgNumber()))
      switch (counter.getValue()) {
      case graph::RandomCounter::Seed:
        mapping.map(argument, seed);
        break;
      case graph::RandomCounter::Step:
        mapping.map(argument, stepNumber);
        break;
      case graph::RandomCounter::Microbatch:
        mapping.map(argument, index);
        break;
      }
  Block &body = forward.getBody().front();
  SmallVector<Value> returned(body.getTerminator()->getOperands());
  llvm::SmallPtrSet<Operation *, 16> needed;
  if (!only.empty()) {
    returned = llvm::map_to_vector(
        only, [&](unsigned i) { return Value(returned[i]); });
    SmallVector<Value> work(returned);
    while (!work.empty())
      if (Operation *op = work.pop_back_val().getDefiningOp();
          op && needed.insert(op).second)
        llvm::append_range(work, op->getOperands());
  }
  for (Operation &op : body.without_terminator()) {
    if (!only.empty() && !needed.contains(&op))
      continue;
    // Inference drops nothing, and has no gradients.
    if (!seed && isa<graph::DropoutOp, graph::DetachOp>(op))
      mapping.map(op.getResult(0), mapping.lookupOrDefault(op.getOperand(0)));
    else
      builder.clone(op, mapping);
  }
  return llvm::map_to_vector(
      returned, [&](Value value) { return mapping.lookupOrDefault(value); });
}

FailureOr<Sums> StepBuilder::buildMicrobatch(ValueRange slices,
                                             ValueRange carried, Value index,
                                             ArrayRef<Value> counts) {
  SmallVector<Value> results = cloneForward(slices, carried, index);
  Sums sums = takeMeans(results);
  Value total;
  double scale = 1;
  if (getNumTerms() == 1) {
    total = sums.sums[0];
    scale = 1.0 / static_cast<double>(means[0].targets * microbatches);
  } else {
    total = buildWeightedSum(sums.sums, counts.empty() ? sums.counts : counts);
  }
  Value start = graph::SeedOp::create(builder, total.getLoc(),
                                      graph::getGlobalType(total),
                                      builder.getF64FloatAttr(scale));
  SmallVector<Value> differentiated;
  for (Parameter &parameter : parameters)
    if (parameter.trainable)
      differentiated.push_back(parameter.step);
  auto gradients = buildGradients(builder, total, start, differentiated);
  if (failed(gradients))
    return failure();
  sums.gradients = *gradients;
  for (Parameter &parameter : parameters)
    if (parameter.update >= 0)
      sums.carried.push_back(results[parameter.update]);
  return sums;
}

Value StepBuilder::takeOnly(Value input) {
  return graph::ReshapeOp::create(builder, input.getLoc(), input,
                                  graph::getShape(input).drop_front());
}

FailureOr<Sums> StepBuilder::buildMicrobatches() {
  auto integer = RankedTensorType::get({}, builder.getI64Type());
  if (microbatches == 1) {
    SmallVector<Value> slices;
    for (BlockArgument input : inputs)
      slices.push_back(takeOnly(input));
    return buildMicrobatch(slices, getCarried(),
                           graph::splat(builder, parts.location, integer, 0),
                           {});
  }
  SmallVector<Value> ahead;
  if (getNumTerms() > 1)
    ahead = countAhead();
  // Which sums there are is known once the region is built: it is built in a
  // block of its own, which then moves into the op.
  auto body = std::make_unique<Block>();
  body->addArgument(integer, parts.location);
  for (BlockArgument input : inputs)
    body->addArgument(graph::MicrobatchesOp::getSliceType(
                          cast<RankedTensorType>(input.getType())),
                      input.getLoc());
  SmallVector<Value> carried = getCarried();
  for (Value value : carried)
    body->addArgument(value.getType(), value.getLoc());
  OpBuilder::InsertPoint outside = builder.saveInsertionPoint();
  builder.setInsertionPointToEnd(body.get());
  ValueRange arguments = ValueRange(body->getArguments()).drop_front();
  auto sums = buildMicrobatch(arguments.take_front(inputs.size()),
                              arguments.drop_front(inputs.size()),
                              body->getArgument(0), ahead);
  if (failed(sums))
    return failure();
  SmallVector<Value> yielded;
  for (Value gradient : sums->gradients)
    if (gradient)
      yielded.push_back(gradient);
  llvm::append_range(yielded, sums->sums);
  // Those that are known before are not counted again.
  auto isYielded = [&](size_t mean) {
    return mean >= ahead.size() && !isStatic(sums->counts[mean]);
  };
  for (auto [i, count] : llvm::enumerate(sums->counts))
    if (isYielded(i))
      yielded.push_back(count);
  graph::YieldOp::create(builder, parts.location, yielded, sums->carried);
  llvm::append_range(yielded, sums->carried);

  builder.restoreInsertionPoint(outside);
  auto op = graph::MicrobatchesOp::create(
      builder, parts.location, TypeRange(ValueRange(yielded)), microbatches,
      ValueRange(SmallVector<Value>(inputs.begin(), inputs.end())), carried);
  op.getBody().push_back(body.release());
  auto result = op.getResults().begin();
  for (Value &gradient : sums->gradients)
    if (gradient)
      gradient = *result++;
  for (Value &sum : sums->sums)
    sum = *result++;
  for (auto [i, count] : llvm::enumerate(sums->counts)) {
    if (isYielded(i))
      count = *result++;
    else
      count = i < ahead.size()
                  ? ahead[i]
                  : parts.splat(count, *graph::getSplat(count) *
                                           static_cast<double>(microbatches));
  }
  for (Value &value : sums->carried)
    value = *result++;
  return sums;
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
                                             output.mean));
  func::ReturnOp::create(builder, parts.location, results);
  step.setType(builder.getFunctionType(step.getArgumentTypes(),
                                       ValueRange(results).getTypes()));
  step.setAllResultAttrs(attributes);
  forward.erase();
  // The gradients are there.
  step.walk([](graph::DetachOp detach) {
    detach.getResult().replaceAllUsesWith(detach.getInput());
  });
  eraseDeadOps(step.getBody().front());
}

/// Marks where the update takes a gradient.
Value StepBuilder::takeGradient(Parameter &parameter) {
  auto role = graph::Boundary(step).getArgument<graph::ParameterAttr>(
      parameter.step.getArgNumber());
  return graph::GradientOp::create(
      builder, NameLoc::get(builder.getStringAttr(parameter.name)),
      parameter.gradient, role.getSymbol(), role.getView());
}

/// Which rule updates what, where there are several.
void StepBuilder::reportRules(const Optimizer &optimizer) {
  llvm::MapVector<StringRef, SmallVector<std::string>> names;
  llvm::SmallPtrSet<Operation *, 16> seen;
  for (Parameter &parameter : parameters)
    if (StringRef name = optimizer.getNameFor(parameter.stored);
        parameter.gradient && !name.empty() &&
        seen.insert(parameter.stored).second)
      names[name].push_back(parameter.name);
  for (auto &[rule, updated] : names)
    step.emitRemark() << rule << " updates " << groupNames(updated);
}

FailureOr<SmallVector<Value>>
StepBuilder::buildUpdates(const Optimizer &optimizer, const Clip &clip,
                          const Clip::Scale &scale, const Ema &ema,
                          ValueRange carried) {
  // Of one stored tensor together: some optimizers ask for its norm.
  llvm::MapVector<Operation *, SmallVector<Parameter *>> stored;
  SmallVector<std::string> unused;
  for (Parameter &parameter : parameters) {
    if (parameter.gradient)
      stored[parameter.stored].push_back(&parameter);
    else if (parameter.trainable)
      unused.push_back(parameter.name);
  }
  if (!unused.empty())
    step.emitWarning() << "the loss does not depend on "
                       << (unused.size() == 1 ? "parameter " : "parameters ")
                       << groupNames(unused)
                       << (unused.size() == 1 ? "; it is left as it is"
                                              : "; they are left as they are");
  reportRules(optimizer);
  llvm::DenseMap<Parameter *, Value> next;
  for (auto &[op, views] : stored) {
    SmallVector<UpdatedTensor> tensors;
    for (Parameter *parameter : views) {
      Parts own(builder, NameLoc::get(builder.getStringAttr(parameter->name)));
      // With a norm it is taken already.
      Value gradient = clip.norm != 0 ? parameter->gradient
                                      : takeGradient(*parameter);
      if (scale.factor)
        gradient = own.mul(gradient, own.spread(scale.factor, gradient));
      tensors.push_back({parameter->stored,
                         graph::Boundary(step).getView(
                             parameter->step.getArgNumber()),
                         own.location, /*decays=*/true, parameter->step,
                         clip.limit(own, gradient), parameter->states});
    }
    if (failed(optimizer.buildUpdates(builder, views.front()->names, tensors,
                                      storedStates[op])))
      return failure();
    for (auto [parameter, tensor] : llvm::zip_equal(views, tensors)) {
      next[parameter] = tensor.parameter;
      parameter->states = tensor.states;
    }
  }
  SmallVector<Value> updated, updatedStates;
  auto carriedNext = carried.begin();
  for (Parameter &parameter : parameters) {
    updated.push_back(parameter.update >= 0  ? *carriedNext++
                      : parameter.gradient ? next[&parameter]
                                           : Value(parameter.step));
    llvm::append_range(updatedStates, parameter.states);
    if (parameter.average) {
      Parts own(builder, NameLoc::get(builder.getStringAttr(parameter.name)));
      updatedStates.push_back(
          ema.buildNext(own, parameter.average, updated.back()));
    }
  }
  llvm::append_range(updated, updatedStates);
  for (auto &[op, states] : storedStates)
    llvm::append_range(updated, states);
  return updated;
}

LogicalResult StepBuilder::buildTraining(Optimizer &optimizer,
                                         const Clip &clip, const Ema &given) {
  Ema ema = given;
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
  if (llvm::none_of(sums->gradients, [](Value value) { return !!value; }))
    return step.emitError("the loss depends on no trainable parameter");

  // Each microbatch was scaled by the static number of targets; the number
  // that counted is known now. Where none did, each gradient is a sum of
  // nothing: zero, as PyTorch's, though the loss is a mean of nothing. Of
  // several terms the numbers were known before.
  Value factor;
  if (Value count = sums->counts[0]; getNumTerms() == 1 && !isStatic(count))
    factor = parts.div(parts.splat(count, static_cast<double>(means[0].targets *
                                                              microbatches)),
                       parts.add(count, buildIsNone(count)));
  // A norm needs all gradients before the first update; else each is taken
  // where it is needed.
  SmallVector<Value> gradients;
  if (clip.norm != 0)
    for (Parameter &parameter : parameters)
      if (parameter.gradient)
        gradients.push_back(parameter.gradient = takeGradient(parameter));
  Clip::Scale scale = clip.buildScale(parts, gradients, factor);
  optimizer.buildScalars(parts, stepNumber, rates);
  if (ema)
    ema.buildScalars(parts, stepNumber);
  auto updated = buildUpdates(optimizer, clip, scale, ema, sums->carried);
  if (failed(updated))
    return failure();
  updated->push_back(parts.add(stepNumber, 1));
  auto metrics = buildMetrics(sums->sums, sums->counts);
  if (scale.norm)
    metrics.push_back({"grad_norm", scale.norm});
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
  SmallVector<Value> results = cloneForward(slices, getCarried(), {});
  SmallVector<Value> updated;
  for (Parameter &parameter : parameters)
    updated.push_back(parameter.update < 0 ? Value(parameter.step)
                                           : results[parameter.update]);
  SmallVector<StepOutput> outputs;
  if (!means.empty()) { // a loss is attached, and takes the outputs' place
    Sums sums = takeMeans(results);
    outputs = buildMetrics(sums.sums, sums.counts);
    results.clear();
  }
  for (auto [i, value] : llvm::enumerate(results)) {
    if (boundary().getReplaced(i))
      continue; // an update
    auto output = boundary().getResult<graph::OutputAttr>(i);
    if (!output)
      return forward.emitError("result ")
             << i << " is no output or update (graph.role)";
    StringAttr name = output.getName();
    if (graph::getShape(value).empty()) { // a number of the batch: a metric
      // Without a loss these are the model's own.
      bool isOwn = name == "loss" || name == "count";
      outputs.push_back({isOwn ? name.str() : metricName(name.str()), value});
      continue;
    }
    SmallVector<int64_t> shape{1};
    llvm::append_range(shape, graph::getShape(value));
    if (int64_t batch = forwardInputs.empty()
                            ? shape[1]
                            : graph::getShape(forwardInputs.front())[0];
        shape[1] != batch)
      return forward.emitError("output '")
             << name.getValue() << "' has dims ["
             << llvm::interleaved(graph::getShape(value))
             << "], but the inputs have a batch of " << batch
             << ": the batch is the first dim of each output; leave this one "
                "out of the export, or move its batch to the front";
    outputs.push_back(
        {name.str(), graph::ReshapeOp::create(builder, value.getLoc(), value,
                                              ArrayRef<int64_t>(shape))});
  }
  finish(updated, outputs);
  return success();
}

void BuildStep::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<func::FuncOp> forward = getForward(module);
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
  SmallVector<Optimizer::Names> names;
  for (auto parameter : module.getOps<graph::ParameterOp>())
    names.push_back({getNames(parameter), parameter.getTrainable()});
  if (failed(
          parsed->checkPatterns(names, [&] { return module.emitError(); })) ||
      failed(steps.buildTraining(*parsed, *clip, {ema})))
    return signalPassFailure();
  parsed->describeGroups(names, [&] { return module.emitRemark(); });
}
