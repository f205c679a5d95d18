// Cross entropy, and other losses and metrics of class scores and labels.

#include "compiler/training/LossBuilder.h"

#include "compiler/training/PairLosses.h"
#include "dialects/graph/ElementTypes.h"
#include "support/ModelDims.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;

LogicalResult LossBuilder::limitLabels(unsigned number, int64_t classes,
                                       int64_t ignoreIndex) {
  if (auto [other, isNew] = ignored.try_emplace(number, ignoreIndex);
      !isNew && other->second != ignoreIndex) {
    return emitError() << (isMetric ? "a metric has the labels '"
                                    : "two terms have the labels '")
                       << boundary().getName(number)
                       << (isMetric ? "' of the loss or of another metric"
                                    : "'")
                       << ", one with ignore_index=" << other->second
                       << " and one with ignore_index=" << ignoreIndex
                       << "; give one of them another name";
  }
  // An input that the model looks up in a table already has a range.
  auto input = boundary().getArgument<graph::InputAttr>(number);
  std::optional<int64_t> known = input.getRange();
  boundary().setArgument(
      number,
      known ? input.withRange(std::min(classes, *known), input.getIgnored())
            : input.withRange(classes, ignoreIndex));
  return success();
}

/// The shape of `type` without dim `axis`.
static SmallVector<int64_t> rowsOf(RankedTensorType type, int64_t axis) {
  SmallVector<int64_t> rows(type.getShape());
  rows.erase(rows.begin() + axis);
  return rows;
}

FailureOr<int64_t> LossBuilder::findClasses(const Call &call,
                                            const Output &logits) {
  RankedTensorType type = graph::getGlobalType(logits.value);
  std::vector<int64_t> order = modelOrder(type.getRank(), logits.batchDim);
  auto named = [&](int64_t axis) {
    return llvm::find(order, axis) - order.begin();
  };
  // [samples, classes] leaves no choice; for lower ranks the caller emits an
  // error.
  if (type.getRank() < 3)
    return type.getRank() - 1;
  const std::string &output = call.positional[0], &labels = call.positional[1];
  // The remaining dims must be those of the labels, if the model has them as an
  // input, or else of an input with one label per element: tokens.
  SmallVector<int64_t> axes;
  std::string other;
  for (bool isLabels : {true, false})
    for (BlockArgument argument : forward.getArguments()) {
      auto input =
          boundary().getArgument<graph::InputAttr>(argument.getArgNumber());
      RankedTensorType given = graph::getGlobalType(argument);
      if (!input || !isa<IntegerType>(given.getElementType()) ||
          isLabels != (input.getName() == labels) || !axes.empty())
        continue;
      for (int64_t axis = 1; axis < type.getRank(); ++axis)
        if (given.getShape() == ArrayRef<int64_t>(rowsOf(type, axis)))
          axes.push_back(axis);
      other = input.getName().str();
    }
  if (axes.size() == 1) {
    if (chosen.insert(output).second)
      emitRemark() << "the classes are dim " << named(axes[0]) << " of '"
                   << output << "', " << type.getDimSize(axes[0])
                   << " of them: its other dims are those of '" << other << "'";
    return axes[0];
  }
  InFlightDiagnostic diagnostic = emitError();
  diagnostic << "output '" << output << "' of type " << type
             << " may have its classes in any dim";
  if (!axes.empty())
    diagnostic << ", and dims "
               << llvm::interleaved(llvm::map_range(axes, named))
               << " both leave the dims of '" << other << "'";
  return diagnostic << "; say which: " << call.name << "(" << output << ","
                    << labels
                    << ",axis=1) as PyTorch's cross_entropy has it, "
                       "axis="
                    << named(type.getRank() - 1)
                    << " where the classes are last";
}

FailureOr<LossBuilder::Classes>
LossBuilder::getClasses(const Call &call, const ClassOptions &options) {
  if (failed(expectPositional(call, {"OUTPUT", "LABELS"})))
    return failure();
  FailureOr<Output> logits = getOutput(call.positional[0]);
  if (failed(logits))
    return failure();
  int64_t batchDim = logits->batchDim;
  RankedTensorType type = graph::getGlobalType(logits->value);
  Classes classes;
  classes.logits = logits->value;
  std::vector<int64_t> order = modelOrder(type.getRank(), batchDim);
  int64_t rank = order.size(), axis;
  if (options.axis) {
    axis = *options.axis + (*options.axis < 0 ? rank : 0);
  } else {
    FailureOr<int64_t> found = findClasses(call, *logits);
    if (failed(found))
      return failure();
    axis = llvm::find(order, *found) - order.begin();
  }
  if (!isa<FloatType>(type.getElementType()) || axis < 0 || axis >= rank)
    return emitError() << "output '" << call.positional[0] << "' of type "
                       << type << " cannot be logits with the classes in dim "
                       << axis;
  if (axis == batchDim)
    return emitError() << "output '" << call.positional[0]
                       << "' has its batch in dim " << axis
                       << ", which cannot be the classes";
  classes.axis = order[axis];
  classes.size = type.getDimSize(classes.axis);
  auto labelType =
      RankedTensorType::get(rowsOf(type, classes.axis), builder.getI64Type());
  // Without the dim of the classes, the batch may be one dim earlier.
  FailureOr<Value> labels = getLabels(
      call.positional[1], labelType, batchDim > axis ? batchDim - 1 : batchDim);
  if (failed(labels))
    return failure();
  classes.labels = *labels;
  warnOfCopies(call, logits->value, *labels);
  unsigned number = cast<BlockArgument>(*labels).getArgNumber();
  // A metric ignores the labels that the loss ignores.
  auto known = ignored.find(number);
  classes.ignoreIndex = options.ignoreIndex ? *options.ignoreIndex
                        : isMetric && known != ignored.end() ? known->second
                                                             : -100;
  if (failed(limitLabels(number, classes.size, classes.ignoreIndex)))
    return failure();
  classes.isCounted = parts.compare(
      classes.labels, Comparison::NE,
      parts.splat(classes.labels, static_cast<double>(classes.ignoreIndex)));
  // A float, so that it is reduced together with the gradients; exact up to
  // 2^24.
  classes.counted = parts.convert(classes.isCounted,
                                  graph::statisticType(builder.getContext()));
  return classes;
}

graph::CrossEntropyOp LossBuilder::buildLogLikelihood(const Classes &classes) {
  return graph::CrossEntropyOp::create(builder, parts.location, classes.logits,
                                       classes.labels, classes.axis,
                                       classes.ignoreIndex);
}

Loss LossBuilder::meanOver(const Classes &classes, Value each, Value counted) {
  return Loss{sumAll(each), sumAll(counted),
              graph::getGlobalType(classes.labels).getNumElements()};
}

Value LossBuilder::buildSmoothing(const Classes &classes, Value lse,
                                  ArrayRef<double> weights) {
  Value sum = classes.logits;
  double size = static_cast<double>(classes.size), total = size;
  if (!weights.empty()) {
    ArrayRef<int64_t> shape = graph::getShape(sum);
    auto others = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    others.erase(others.begin() + classes.axis);
    Value row =
        buildRow(parts, weights, graph::getGlobalType(lse).getElementType());
    sum = parts.mul(sum, parts.broadcast(row, shape, others));
    total = 0;
    for (double weight : weights)
      total += weight;
  }
  sum = parts.sum(sum, {classes.axis});
  Value smooth =
      parts.sub(parts.mul(lse, total / size), parts.mul(sum, 1 / size));
  return parts.select(classes.isCounted, smooth, parts.splat(smooth, 0));
}

FailureOr<Loss> LossBuilder::buildCrossEntropy(const Call &call) {
  ClassOptions options;
  double smoothing = 0;
  SmallVector<double> weights;
  auto emit = [&] { return emitError(); };
  NamedArguments named(call, emit);
  named.take("axis", options.axis);
  named.take("ignore_index", options.ignoreIndex);
  named.take("label_smoothing", smoothing);
  named.take("weight", weights);
  if (failed(named.finish(otherLosses)))
    return failure();
  FailureOr<Classes> classes = getClasses(call, options);
  if (failed(classes))
    return failure();
  if (!(smoothing >= 0 && smoothing <= 1))
    return emitError() << call.name << ": label_smoothing=" << smoothing
                       << ": the share must be from 0 to 1";
  if (!weights.empty()) {
    if (static_cast<int64_t>(weights.size()) != classes->size)
      return emitError() << call.name << ": weight has " << weights.size()
                         << " numbers, but output '" << call.positional[0]
                         << "' has " << classes->size << " classes (dim "
                         << classes->axis << "); give one for each";
    for (auto [i, weight] : llvm::enumerate(weights))
      if (!(weight >= 0 && std::isfinite(weight)))
        return emitError() << call.name << ": weight " << i << " is " << weight
                           << "; weights are finite and not negative";
  }

  graph::CrossEntropyOp op = buildLogLikelihood(*classes);
  Value loss = op.getLoss(), counted = classes->counted;
  if (!weights.empty()) { // a weighted mean
    Value row =
        buildRow(parts, weights, graph::getGlobalType(loss).getElementType());
    counted = graph::GatherOp::create(builder, parts.location, row,
                                      classes->labels, /*axis=*/0);
    counted =
        parts.select(classes->isCounted, counted, parts.splat(counted, 0));
    loss = parts.mul(loss, counted);
  }
  // The loss of the label with weight 1 - smoothing, and the mean loss of all
  // classes with the rest.
  if (smoothing > 0)
    loss = parts.add(
        parts.mul(loss, 1 - smoothing),
        parts.mul(buildSmoothing(*classes, op.getLse(), weights), smoothing));
  return meanOver(*classes, loss, counted);
}

FailureOr<Loss> LossBuilder::buildPerplexity(const Call &call) {
  ClassOptions options;
  auto emit = [&] { return emitError(); };
  NamedArguments named(call, emit);
  named.take("axis", options.axis);
  named.take("ignore_index", options.ignoreIndex);
  if (failed(named.finish()))
    return failure();
  FailureOr<Classes> classes = getClasses(call, options);
  if (failed(classes))
    return failure();
  Loss mean = meanOver(*classes, buildLogLikelihood(*classes).getLoss(),
                       classes->counted);
  mean.kind = graph::MeanKind::Geometric;
  return mean;
}

FailureOr<Loss> LossBuilder::buildAccuracy(const Call &call) {
  ClassOptions options;
  int64_t top = 1;
  auto emit = [&] { return emitError(); };
  NamedArguments named(call, emit);
  named.take("axis", options.axis);
  named.take("ignore_index", options.ignoreIndex);
  named.take("top", top);
  if (failed(named.finish()))
    return failure();
  FailureOr<Classes> classes = getClasses(call, options);
  if (failed(classes))
    return failure();
  if (top < 1 || top > classes->size)
    return emitError() << call.name << ": top=" << top << ", but output '"
                       << call.positional[0] << "' has " << classes->size
                       << " classes; it must be from 1 to that";
  // The number of classes that score no more than the label, including the
  // label. Among equal scores the first is best, like argmax; NaN is better
  // than all other scores, and a label with NaN never counts.
  Value logits = classes->logits, labels = classes->labels;
  ArrayRef<int64_t> shape = graph::getShape(logits);
  int64_t axis = classes->axis;
  Value own = parts.broadcast(parts.pick(logits, labels, axis), shape, {axis});
  Value isBefore =
      parts.compare(parts.iota(shape, builder.getI64Type(), axis),
                    Comparison::LT, parts.broadcast(labels, shape, {axis}));
  Value isBehind =
      parts.select(isBefore, parts.compare(logits, Comparison::LT, own),
                   parts.compare(logits, Comparison::LE, own));
  Value behind = parts.sum(
      parts.convert(isBehind, graph::statisticType(builder.getContext())),
      {axis});
  Value isRight = parts.compare(
      behind, Comparison::GT,
      parts.splat(behind, static_cast<double>(classes->size - top)));
  Value right =
      parts.convert(isRight, graph::statisticType(builder.getContext()));
  right = parts.select(classes->isCounted, right, parts.splat(right, 0));
  return meanOver(*classes, right, classes->counted);
}
