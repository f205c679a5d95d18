// Builds losses and metrics of single outputs, and --loss and --metric from
// them.

#include "compiler/training/LossBuilder.h"

#include "compiler/training/PairLosses.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Provenance.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

FailureOr<LossBuilder::Output> LossBuilder::getOutput(StringRef name) {
  auto yields = forward.getBody().front().getTerminator()->getOperands();
  SmallVector<std::string> names;
  for (auto [i, value] : llvm::enumerate(yields)) {
    auto output = boundary().getResult<graph::OutputAttr>(i);
    if (!output)
      continue;
    if (output.getName() == name)
      return Output{value, output.getBatchDim()};
    names.push_back(output.getName().str());
  }
  return emitError() << "the model has no output '" << name
                     << "'; its outputs are: " << llvm::join(names, ", ")
                     << nearestWords(name, names);
}

FailureOr<Value> LossBuilder::getLabels(StringRef name, RankedTensorType type,
                                        int64_t batchDim) {
  BlockArgument labels;
  for (BlockArgument argument : forward.getArguments()) {
    auto input =
        boundary().getArgument<graph::InputAttr>(argument.getArgNumber());
    if (!input || input.getName() != name)
      continue;
    if (argument.getType() != type)
      return emitError() << "the model's input '" << name << "' has type "
                         << argument.getType() << " where it must have " << type
                         << "; give the labels another name";
    labels = argument;
  }
  if (!labels) {
    StringAttr text = builder.getStringAttr(name);
    labels = boundary().insertArgument(
        forward.getNumArguments(), type,
        graph::InputAttr::get(text).withBatchDim(batchDim), NameLoc::get(text));
    if (batchDim == noBatch)
      emitRemark() << "'" << name << "' has no batch, as the output that it is "
                   << "compared with: of several microbatches the mean of "
                   << "theirs is taken";
  }
  unsigned number = labels.getArgNumber();
  boundary().setArgument(
      number, boundary().getArgument<graph::InputAttr>(number).withLabels());
  return Value(labels);
}

LogicalResult LossBuilder::expectPositional(const Call &call,
                                            ArrayRef<StringRef> expected) {
  size_t given = call.positional.size();
  if (given == expected.size())
    return success();
  return emitError() << "'" << call.name << "' has " << given
                     << (given == 1 ? " name" : " names") << "; expected "
                     << call.name << "(" << llvm::join(expected, ",") << ")"
                     << (given > expected.size()
                             ? "; a loss of several terms is their sum, such "
                               "as cross_entropy(A,LABELS)+0.5*mse(B,TARGET)"
                             : "");
}

FailureOr<Loss> LossBuilder::buildPair(const Call &call) {
  if (failed(expectPositional(call, {"OUTPUT", "TARGET"})))
    return failure();
  FailureOr<Output> output = getOutput(call.positional[0]);
  if (failed(output))
    return failure();
  RankedTensorType type = graph::getGlobalType(output->value);
  if (!isa<FloatType>(type.getElementType()))
    return emitError() << "output '" << call.positional[0] << "' has type "
                       << type << "; " << call.name << " needs floats";
  FailureOr<Value> target =
      getLabels(call.positional[1], type, output->batchDim);
  if (failed(target))
    return failure();
  auto emit = [&] { return emitError(); };
  FailureOr<Value> each =
      buildPairLoss(parts, call, output->value, *target, emit, otherLosses);
  if (failed(each))
    return failure();
  int64_t targets = type.getNumElements();
  return Loss{sumAll(*each),
              graph::splat(builder, parts.location,
                           RankedTensorType::get(
                               {}, graph::statisticType(builder.getContext())),
                           static_cast<double>(targets)),
              targets};
}

FailureOr<SmallVector<Loss>> LossBuilder::buildOutput(const Call &call) {
  if (failed(expectPositional(call, {"OUTPUT"})))
    return failure();
  FailureOr<Output> output = getOutput(call.positional[0]);
  auto emit = [&] { return emitError(); };
  if (failed(output) || failed(NamedArguments(call, emit).finish(otherLosses)))
    return failure();
  RankedTensorType type = graph::getGlobalType(output->value);
  if (!isa<FloatType>(type.getElementType()) || type.getNumElements() != 1)
    return emitError() << "output '" << call.positional[0] << "' of type "
                       << type << " is not one number; name a loss as in "
                       << "cross_entropy(" << call.positional[0] << ",labels)";
  used.insert(call.positional[0]);
  SmallVector<Loss> means = splitMean(output->value);
  describeMean(call.positional[0], means);
  return means;
}

void LossBuilder::describeMean(StringRef name, ArrayRef<Loss> means) {
  StringRef what = isMetric ? "metric" : "loss";
  bool hasRest = !!means.back().count.getDefiningOp<graph::ConstantOp>();
  if (hasRest && means.size() == 1)
    emitRemark() << "'" << name << "' is taken as a mean: the " << what
                 << " is its mean over the microbatches, each with the same "
                    "weight";
  else if (means.size() == 1)
    emitRemark() << "'" << name << "' is a sum over a number of targets: the "
                 << what << " is their mean over the global batch";
  else
    emitRemark() << "'" << name << "' is a sum of " << means.size()
                 << " means: each is over its own number of targets in the "
                    "global batch"
                 << (hasRest ? ", and the last over the microbatches, each "
                               "with the same weight"
                             : "");
  for (Operation *op : splitter.takeJoint()) {
    std::string scope = graph::getScope(op).str();
    emitRemark() << "'" << name << "' has a part that is no mean over samples: "
                 << graph::describe(op)
                 << (scope.empty() ? "" : " in '" + scope + "'")
                 << "; it is computed of each microbatch by itself, and the "
                 << what << " has the mean of these values, which is not that "
                 << "of the global batch where there are several";
  }
}

SmallVector<Loss> LossBuilder::splitMean(Value value) {
  SmallVector<Loss> means;
  for (const LossPart &part : splitter.split(value)) {
    // The largest count is unknown; 1 leaves the seed unscaled.
    Value count =
        part.count
            ? part.count
            : graph::splat(builder, parts.location,
                           RankedTensorType::get(
                               {}, graph::statisticType(builder.getContext())),
                           1);
    means.push_back(
        {part.sum, count, 1, graph::MeanKind::Arithmetic, part.least});
  }
  return means;
}

FailureOr<SmallVector<Loss>> LossBuilder::buildTerm(const WeightedCall &term) {
  Call call = term.call;
  StringRef name = call.name;
  // Accepts PyTorch's names.
  for (StringRef module : {"torch.nn.functional.", "nn.functional.", "F."})
    if (name.consume_front(module))
      break;
  call.name = getPairLossName(name).str();
  if (call.name == "output")
    return buildOutput(call);
  FailureOr<Loss> mean = buildMean(term, call);
  if (failed(mean))
    return failure();
  return SmallVector<Loss>{*mean};
}

FailureOr<Loss> LossBuilder::buildMean(const WeightedCall &term,
                                       const Call &call) {
  StringRef name = call.name;
  if (name == "cross_entropy")
    return buildCrossEntropy(call);
  if (llvm::is_contained(getPairLosses(), name))
    return buildPair(call);
  if (call.name == "accuracy" || call.name == "perplexity") {
    if (!isMetric)
      return emitError() << "'" << call.name << "' is no loss"
                         << (call.name == "accuracy"
                                 ? ", for it has no gradient"
                                 : "; cross_entropy is its logarithm")
                         << "; --metric '" << term.text << "' logs it";
    return call.name == "accuracy" ? buildAccuracy(call)
                                   : buildPerplexity(call);
  }
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (auto output = boundary().getResult<graph::OutputAttr>(i);
        output && output.getName() == name)
      return emitError() << "'" << name << "' is an output of the model and no "
                         << "loss; write output(" << name
                         << ") where it is the loss itself";
  std::vector<std::string> known{"cross_entropy", "output"};
  if (isMetric)
    known.insert(known.end(), {"accuracy", "perplexity"});
  for (StringRef loss : getPairLosses())
    known.push_back(loss.str());
  return emitError() << "unknown " << (isMetric ? "metric" : "loss") << " '"
                     << term.call.name << "'; there are: "
                     << (isMetric ? "accuracy(OUTPUT,LABELS), "
                                    "perplexity(OUTPUT,LABELS), "
                                  : "")
                     << "cross_entropy(OUTPUT,LABELS), output(OUTPUT), and of "
                        "OUTPUT,TARGET: "
                     << llvm::join(getPairLosses(), ", ")
                     << nearestWords(call.name, known) << otherLosses;
}

LogicalResult LossBuilder::addMetric(StringRef text,
                                     SmallVectorImpl<NamedMean> &means) {
  auto emit = [&] { return emitError(); };
  FailureOr<SmallVector<WeightedCall>> calls = parseSum(text, emit);
  if (failed(calls))
    return failure();
  if (calls->size() != 1 || calls->front().weight != 1)
    return emitError() << "'" << text
                       << "' is no metric by itself; give each of several in "
                          "a --metric of its own, without a weight";
  FailureOr<SmallVector<Loss>> mean = buildTerm(calls->front());
  if (failed(mean))
    return failure();
  means.push_back({*mean, calls->front().text, std::nullopt});
  return success();
}

LogicalResult LossBuilder::expectNamesDiffer(ArrayRef<NamedMean> means) {
  bool isOneTerm = llvm::count_if(means, [](const NamedMean &mean) {
                     return mean.weight.has_value();
                   }) == 1;
  llvm::StringSet<> names;
  for (const NamedMean &mean : means) {
    std::string name = metricName(mean.name);
    SmallVector<std::string> logged;
    if (!isOneTerm || !mean.weight) // a single term is logged as loss
      logged.push_back(name);
    if (size_t size = mean.parts.size(); size > 1)
      for (size_t number = 0; number < size; ++number)
        logged.push_back(partName(name, number));
    for (const std::string &first : logged)
      for (const std::string &each : {first, countName(first)})
        if (!names.insert(each).second)
          return forward.emitError()
                 << "the log would have two numbers called '" << each
                 << "'; leave one of them out, or give the model's output "
                    "another name";
  }
  return success();
}

FailureOr<SmallVector<NamedMean>>
LossBuilder::build(StringRef loss, ArrayRef<std::string> metrics) {
  auto emit = [&] { return emitError(); };
  SmallVector<NamedMean> means;
  if (!loss.empty()) {
    FailureOr<SmallVector<WeightedCall>> terms = parseSum(loss, emit);
    if (failed(terms))
      return failure();
    for (const WeightedCall &term : *terms) {
      FailureOr<SmallVector<Loss>> mean = buildTerm(term);
      if (failed(mean))
        return failure();
      means.push_back({*mean, term.text, term.weight});
    }
  }
  isMetric = true;
  for (const std::string &metric : metrics)
    if (failed(addMetric(metric, means)))
      return failure();
  auto yields = forward.getBody().front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(yields)) {
    auto output = boundary().getResult<graph::OutputAttr>(i);
    RankedTensorType type = graph::getGlobalType(value);
    if (output && type.getRank() == 0 &&
        isa<FloatType>(type.getElementType()) &&
        used.insert(output.getName()).second)
      means.push_back({splitMean(value), output.getName().str(), std::nullopt});
  }
  if (failed(expectNamesDiffer(means)))
    return failure();
  return means;
}
