// Builds @step from @forward: gradients, microbatches, optimizer.

#include "compiler/training/Autodiff.h"
#include "compiler/training/Forward.h"
#include "compiler/training/Optimizer.h"
#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
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

/// A parameter argument of @forward and of @step.
struct Parameter {
  BlockArgument forward, step;
  std::string name;               // of the stored tensor
  SmallVector<std::string> names; // that and its aliases
  bool trainable = false;
  SmallVector<Value> states;
  Value gradient;
  /// Which result of @forward is its next value (running statistics), or -1.
  int64_t update = -1;
};

/// What @forward returns as a sum and, in the result behind it, what it is
/// over. Terms of the loss come first.
struct Mean {
  unsigned result;
  std::string name;
  std::optional<double> weight; // in the loss, of which it is a term
  int64_t targets;              // that there can be, of a microbatch
};

/// The sums of one microbatch, or of all.
struct Sums {
  SmallVector<Value> gradients; // of the differentiated parameters
  SmallVector<Value> sums, counts; // of each mean
  SmallVector<Value> carried; // next values of the parameters that have any
};

class StepBuilder {
public:
  StepBuilder(ModuleOp module, func::FuncOp forward, int64_t microbatches)
      : module(module), forward(forward), microbatches(microbatches),
        builder(module.getContext()),
        parts(builder, NameLoc::get(builder.getStringAttr("step"))) {}

  LogicalResult buildTraining(Optimizer &optimizer);
  LogicalResult buildForward();

private:
  LogicalResult classify();
  /// Makes @step with the arguments so far and an empty body.
  void createFunction(ArrayRef<StringRef> stateNames, bool isTraining);
  BlockArgument addArgument(Type type, Attribute role);
  /// Clones the ops of @forward and returns what it returns. `carried` are the
  /// values of the parameters that it updates, `slices` its inputs.
  /// Given `only`, clones and returns what these results need.
  SmallVector<Value> cloneForward(ValueRange slices, ValueRange carried,
                                  Value index, ArrayRef<unsigned> only = {});
  /// `counts`: of the terms of the loss, over all microbatches; empty: those of
  /// this one, which is the only one.
  FailureOr<Sums> buildMicrobatch(ValueRange slices, ValueRange carried,
                                  Value index, ArrayRef<Value> counts);
  LogicalResult findMeans();
  /// The means among what @forward returned.
  Sums takeMeans(ArrayRef<Value> results);
  unsigned getNumTerms() {
    return llvm::count_if(means, [](auto &mean) { return !!mean.weight; });
  }
  /// The sum of weight times value over the terms of the loss.
  Value addTerms(ArrayRef<Value> values);
  /// What the gradients are of where the loss has several terms: the sum of
  /// weight / count times the term's sum.
  Value buildWeightedSum(ArrayRef<Value> sums, ArrayRef<Value> counts);
  /// What each term of the loss is over in all microbatches, before they run.
  SmallVector<Value> countAhead();
  /// The values before the step of the parameters that @forward updates.
  SmallVector<Value> getCarried();
  FailureOr<Sums> buildMicrobatches();
  /// Microbatch 0 of an input that has no other.
  Value takeOnly(Value input);
  Value buildMean(Value sum, Value count);
  /// 1 where `count` is 0, else 0.
  Value buildIsNone(Value count);
  /// The loss, its terms where it has several, and other means, as outputs.
  SmallVector<std::pair<std::string, Value>>
  buildMetrics(ArrayRef<Value> sums, ArrayRef<Value> counts);
  void finish(ValueRange updated,
              ArrayRef<std::pair<std::string, Value>> outputs);
  graph::Boundary boundary() { return graph::Boundary(forward); }
  ModuleOp module;
  func::FuncOp forward, step;
  int64_t microbatches;
  OpBuilder builder;
  Parts parts;
  SmallVector<Parameter> parameters;
  SmallVector<Mean> means;
  SmallVector<BlockArgument> forwardInputs, inputs;
  Value stepNumber, seed;
};

class BuildStep : public training::impl::BuildStepPassBase<BuildStep> {
public:
  using BuildStepPassBase::BuildStepPassBase;
  void runOnOperation() override;
};

} // namespace

/// Of a stored tensor: several where it is tied.
static SmallVector<std::string> getNames(graph::ParameterOp parameter) {
  SmallVector<std::string> names{parameter.getSymName().str()};
  if (ArrayAttr aliases = parameter.getAliasesAttr())
    for (auto alias : aliases.getAsRange<StringAttr>())
      names.push_back(alias.str());
  return names;
}

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

LogicalResult StepBuilder::findMeans() {
  for (unsigned i = 0, count = forward.getNumResults(); i < count; ++i) {
    auto role = boundary().getResult<graph::MeanAttr>(i);
    if (!role)
      continue;
    FloatAttr weight = role.getWeight();
    if (weight && !means.empty() && !means.back().weight)
      return forward.emitError("result ")
             << i << " is a term of the loss behind other means";
    Mean &mean = means.emplace_back();
    mean = {i, role.getName().str(), std::nullopt,
            boundary().getResult<graph::CountAttr>(i + 1).getTargets()};
    if (weight)
      mean.weight = weight.getValueAsDouble();
  }
  return success();
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

void StepBuilder::createFunction(ArrayRef<StringRef> stateNames,
                                 bool isTraining) {
  builder.setInsertionPoint(forward);
  step = func::FuncOp::create(builder, forward.getLoc(), "step",
                              builder.getFunctionType({}, {}));
  step.addEntryBlock();
  auto zero = builder.getF64FloatAttr(0);
  auto addState = [&](Type type, StringRef suffix, FlatSymbolRefAttr of,
                      DenseI64ArrayAttr view) {
    return addArgument(type,
                       graph::StateAttr::get(builder.getContext(),
                                             builder.getStringAttr(suffix), of,
                                             view, zero));
  };
  auto roleOf = [&](BlockArgument argument) {
    return boundary().getArgument(argument.getArgNumber());
  };
  for (Parameter &parameter : parameters)
    parameter.step =
        addArgument(parameter.forward.getType(), roleOf(parameter.forward));
  for (Parameter &parameter : parameters) {
    if (!isTraining || !parameter.trainable)
      continue;
    auto role = cast<graph::ParameterAttr>(roleOf(parameter.forward));
    for (StringRef state : stateNames)
      parameter.states.push_back(addState(parameter.forward.getType(), state,
                                          role.getSymbol(), role.getView()));
  }
  auto integer = RankedTensorType::get({}, builder.getI64Type());
  if (isTraining) {
    stepNumber = addState(integer, "step", {}, {});
    seed = addArgument(integer,
                       graph::CounterAttr::get(builder.getContext(),
                                               graph::RandomCounter::Seed));
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

static bool isStatic(Value count) {
  return !!count.getDefiningOp<graph::ConstantOp>();
}

Value StepBuilder::buildIsNone(Value count) {
  return parts.convert(
      parts.compare(count, graph::Comparison::EQ, parts.splat(count, 0)),
      graph::getGlobalType(count).getElementType());
}

Value StepBuilder::addTerms(ArrayRef<Value> values) {
  Value total;
  for (auto [mean, value] :
       llvm::zip(ArrayRef(means).take_front(getNumTerms()), values)) {
    Value term = parts.mul(value, *mean.weight);
    total = total ? parts.add(total, term) : term;
  }
  return total;
}

Value StepBuilder::buildWeightedSum(ArrayRef<Value> sums,
                                    ArrayRef<Value> counts) {
  SmallVector<Value> values;
  for (auto [sum, count] : llvm::zip(sums.take_front(getNumTerms()), counts)) {
    // A sum of nothing has no gradient, though its mean is NaN.
    Value over = isStatic(count) ? count : parts.add(count, buildIsNone(count));
    values.push_back(buildMean(sum, over));
  }
  return addTerms(values);
}

/// Terms count integers alone, so this needs little of @forward.
SmallVector<Value> StepBuilder::countAhead() {
  auto integer = RankedTensorType::get({}, builder.getI64Type());
  Operation *terminator = forward.getBody().front().getTerminator();
  SmallVector<Value> counts;
  for (const Mean &mean : ArrayRef(means).take_front(getNumTerms())) {
    Value all;
    if (Value count = terminator->getOperand(mean.result + 1);
        isStatic(count)) {
      all = parts.splat(count, *graph::getSplat(count) *
                                   static_cast<double>(microbatches));
    } else {
      for (int64_t i = 0; i < microbatches; ++i) {
        SmallVector<Value> slices;
        for (BlockArgument input : inputs)
          slices.push_back(takeOnly(graph::SliceOp::create(
              builder, input.getLoc(), input, /*dim=*/0, i, i + 1)));
        Value one = cloneForward(slices, getCarried(),
                                 graph::splat(builder, parts.location, integer,
                                              static_cast<double>(i)),
                                 mean.result + 1)[0];
        all = all ? parts.add(all, one) : one;
      }
    }
    counts.push_back(all);
  }
  return counts;
}

Sums StepBuilder::takeMeans(ArrayRef<Value> results) {
  Sums sums;
  for (const Mean &mean : means) {
    sums.sums.push_back(results[mean.result]);
    sums.counts.push_back(results[mean.result + 1]);
  }
  // The weight of a single term is in its sum.
  if (getNumTerms() == 1 && *means[0].weight != 1)
    sums.sums[0] = parts.mul(sums.sums[0], *means[0].weight);
  return sums;
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

void StepBuilder::finish(ValueRange updated,
                         ArrayRef<std::pair<std::string, Value>> outputs) {
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
  for (const auto &[name, value] : outputs)
    add(value, graph::OutputAttr::get(builder.getStringAttr(name)));
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

Value StepBuilder::buildMean(Value sum, Value count) {
  Type element = graph::getGlobalType(sum).getElementType();
  if (graph::getGlobalType(count).getElementType() != element)
    count = parts.convert(count, element);
  return parts.div(sum, count);
}

SmallVector<std::pair<std::string, Value>>
StepBuilder::buildMetrics(ArrayRef<Value> sums, ArrayRef<Value> counts) {
  SmallVector<std::pair<std::string, Value>> metrics;
  SmallVector<Value> values;
  for (auto [sum, count] : llvm::zip_equal(sums, counts))
    values.push_back(buildMean(sum, count));
  unsigned numTerms = getNumTerms();
  if (numTerms == 1) {
    metrics = {{"loss", values[0]}, {"count", counts[0]}};
  } else {
    metrics.push_back({"loss", addTerms(values)});
  }
  for (auto [i, mean] : llvm::enumerate(means)) {
    if (numTerms == 1 && i == 0)
      continue;
    std::string name = metricName(mean.name);
    metrics.push_back({name, values[i]});
    if (!isStatic(counts[i]) || mean.weight)
      metrics.push_back({countName(name), counts[i]});
  }
  return metrics;
}

LogicalResult StepBuilder::buildTraining(Optimizer &optimizer) {
  if (failed(classify()))
    return failure();
  if (getNumTerms() == 0)
    return forward.emitError("has no loss yet (attach-loss)");
  createFunction(optimizer.getStateNames(), true);
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
  optimizer.buildScalars(parts, stepNumber);
  SmallVector<Value> updated, updatedStates;
  SmallVector<std::string> unused;
  auto carried = sums->carried.begin();
  for (Parameter &parameter : parameters) {
    Value value = parameter.update < 0 ? Value(parameter.step) : *carried++;
    if (!parameter.gradient) {
      if (parameter.trainable)
        unused.push_back(parameter.name);
      updated.push_back(value);
      llvm::append_range(updatedStates, parameter.states);
      continue;
    }
    Parts own(builder, NameLoc::get(builder.getStringAttr(parameter.name)));
    Value gradient = parameter.gradient;
    if (factor) {
      ArrayRef<int64_t> shape = graph::getShape(value);
      Value spread = factor;
      Type element = graph::getGlobalType(value).getElementType();
      if (graph::getGlobalType(factor).getElementType() != element)
        spread = own.convert(spread, element);
      if (!shape.empty())
        spread =
            own.broadcast(spread, shape,
                          llvm::to_vector(llvm::seq<int64_t>(0, shape.size())));
      gradient = own.mul(gradient, spread);
    }
    updated.push_back(optimizer.buildUpdate(own, parameter.names, value,
                                            gradient, parameter.states));
    llvm::append_range(updatedStates, parameter.states);
  }
  if (!unused.empty())
    step.emitWarning() << "the loss does not depend on "
                       << (unused.size() == 1 ? "parameter " : "parameters ")
                       << groupNames(unused)
                       << (unused.size() == 1 ? "; it is left as it is"
                                              : "; they are left as they are");
  llvm::append_range(updated, updatedStates);
  updated.push_back(parts.add(stepNumber, 1));
  finish(updated, buildMetrics(sums->sums, sums->counts));
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
  createFunction({}, false);
  SmallVector<Value> slices;
  for (BlockArgument input : inputs)
    slices.push_back(takeOnly(input));
  SmallVector<Value> results = cloneForward(slices, getCarried(), {});
  SmallVector<Value> updated;
  for (Parameter &parameter : parameters)
    updated.push_back(parameter.update < 0 ? Value(parameter.step)
                                           : results[parameter.update]);
  SmallVector<std::pair<std::string, Value>> outputs;
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
  auto emitError = [&] { return module.emitError() << "--optimizer: "; };
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
  FailureOr<Optimizer> parsed = Optimizer::parse(optimizer, emitError);
  if (failed(parsed))
    return signalPassFailure();
  SmallVector<std::string> names;
  for (auto parameter : module.getOps<graph::ParameterOp>())
    if (parameter.getTrainable())
      llvm::append_range(names, getNames(parameter));
  if (failed(parsed->checkPatterns(names, emitError)) ||
      failed(steps.buildTraining(*parsed)))
    signalPassFailure();
}
