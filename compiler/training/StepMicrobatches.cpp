// Builds the microbatches of @step: the forward, its gradients, and their sums.

#include "compiler/training/Autodiff.h"
#include "compiler/training/StepBuilder.h"
#include "dialects/graph/Forward.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

SmallVector<Value> StepBuilder::getCarried() {
  SmallVector<Value> carried;
  for (Parameter &parameter : parameters)
    if (parameter.update >= 0)
      carried.push_back(parameter.step);
  return carried;
}

SmallVector<Value> StepBuilder::cloneForward(ValueRange slices,
                                             ValueRange carried, Value index,
                                             ArrayRef<unsigned> only) {
  IRMapping mapping;
  auto next = carried.begin();
  for (Parameter &parameter : parameters)
    mapping.map(parameter.forward,
                parameter.update < 0 ? Value(parameter.step) : *next++);
  for (ParameterCopy &copy : copies)
    mapping.map(copy.forward.getResult(), copy.step.getResult());
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
    if (isSent(&op) || (!only.empty() && !needed.contains(&op)))
      continue;
    // Inference has neither dropout nor gradients.
    if (!seed && isa<graph::DetachOp>(op)) {
      mapping.map(op.getResult(0), mapping.lookupOrDefault(op.getOperand(0)));
      continue;
    }
    auto dropping = dyn_cast<graph::DroppingOp>(op);
    if (!seed && dropping && dropping.getDropRate())
      mapping.map(op.getResults(),
                  dropping.buildWithoutDropout(builder, mapping));
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
  scale *= lossScale.getFixedFactor();
  Value start = lossScale.scaleSeed(
      parts, graph::SeedOp::create(builder, total.getLoc(),
                                   graph::getGlobalType(total),
                                   builder.getF64FloatAttr(scale)));
  // A parameter that the model updates has the value that the previous
  // microbatch left.
  SmallVector<Value> differentiated;
  auto before = carried.begin();
  for (Parameter &parameter : parameters) {
    Value own = parameter.update < 0 ? Value(parameter.step) : *before++;
    if (parameter.trainable)
      differentiated.push_back(own);
  }
  for (ParameterCopy &copy : copies)
    if (copy.parameter->trainable)
      differentiated.push_back(copy.step);
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
  sendParameters();
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
  // The number of sums is known only after the region is built, so it is built
  // in a separate block, which then moves into the op.
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
  // Counts that are known before the microbatches are not added up again.
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
      count = boundCount(means[i], *result++);
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
