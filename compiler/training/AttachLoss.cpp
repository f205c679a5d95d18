// Replaces the model's outputs by its loss and what is logged beside it.

#include <limits>

#include "compiler/training/Call.h"
#include "compiler/training/Forward.h"
#include "compiler/training/PairLosses.h"
#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/InterleavedRange.h"

namespace polyrank::training {
#define GEN_PASS_DEF_ATTACHLOSSPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::Parts;

namespace {

constexpr const char *otherLosses =
    "; output(OUTPUT) takes any loss that the exported model computes";

/// A mean: two scalars and how large the second can be.
struct Loss {
  Value sum, count;
  int64_t targets;
};

/// A mean under a name, and its weight in the loss where it is part of it.
struct NamedMean {
  Loss mean;
  std::string name;
  std::optional<double> weight;
};

class LossBuilder {
public:
  LossBuilder(func::FuncOp forward, StringRef text)
      : forward(forward), text(text),
        builder(OpBuilder(forward.getBody().front().getTerminator())),
        parts(builder, NameLoc::get(builder.getStringAttr("loss"))) {}

  /// The terms of the loss, then the model's other outputs that are one float.
  FailureOr<SmallVector<NamedMean>> build();

private:
  graph::Boundary boundary() { return graph::Boundary(forward); }
  InFlightDiagnostic emitError() { return forward.emitError() << "--loss: "; }
  FailureOr<Value> getOutput(StringRef name);
  /// The input called `name`: the model's own if it has the type, else new.
  FailureOr<Value> getLabels(StringRef name, RankedTensorType type);
  LogicalResult expectPositional(const Call &call,
                                 ArrayRef<StringRef> expected);
  Value sumAll(Value value) {
    return parts.sum(value, llvm::to_vector(llvm::seq<int64_t>(
                                0, graph::getShape(value).size())));
  }

  /// The values that argument `number` may have: classes, or ignored.
  LogicalResult limitLabels(unsigned number, int64_t classes,
                            int64_t ignoreIndex);
  /// The dim of the classes where `axis` does not say it.
  FailureOr<int64_t> findClasses(const Call &call, RankedTensorType type);
  FailureOr<Loss> buildTerm(const WeightedCall &term);
  FailureOr<Loss> buildCrossEntropy(const Call &call);
  FailureOr<Loss> buildPair(const Call &call);
  FailureOr<Loss> buildOutput(const Call &call);
  /// Of a float scalar: what it is a sum of and over where that can be seen,
  /// else itself over 1.
  Loss splitMean(Value value);

  func::FuncOp forward;
  std::string text;
  llvm::SmallDenseMap<unsigned, int64_t> ignored; // of each of the labels
  OpBuilder builder;
  Parts parts;
};

class AttachLoss : public training::impl::AttachLossPassBase<AttachLoss> {
public:
  using AttachLossPassBase::AttachLossPassBase;
  void runOnOperation() override;
};

} // namespace

FailureOr<Value> LossBuilder::getOutput(StringRef name) {
  auto yields = forward.getBody().front().getTerminator()->getOperands();
  SmallVector<std::string> names;
  for (auto [i, value] : llvm::enumerate(yields)) {
    auto output = boundary().getResult<graph::OutputAttr>(i);
    if (!output)
      continue;
    if (output.getName() == name)
      return Value(value);
    names.push_back(output.getName().str());
  }
  return emitError() << "the model has no output '" << name
                     << "'; its outputs are: " << llvm::join(names, ", ")
                     << nearestWords(name, names);
}

FailureOr<Value> LossBuilder::getLabels(StringRef name, RankedTensorType type) {
  BlockArgument labels;
  for (BlockArgument argument : forward.getArguments()) {
    auto input =
        boundary().getArgument<graph::InputAttr>(argument.getArgNumber());
    if (!input || input.getName() != name)
      continue;
    if (argument.getType() != type)
      return emitError() << "the model's input '" << name << "' has type "
                         << argument.getType() << " where the loss needs "
                         << type << "; give the labels another name";
    labels = argument;
  }
  if (!labels) {
    StringAttr text = builder.getStringAttr(name);
    labels = boundary().insertArgument(forward.getNumArguments(), type,
                                       graph::InputAttr::get(text),
                                       NameLoc::get(text));
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

LogicalResult LossBuilder::limitLabels(unsigned number, int64_t classes,
                                       int64_t ignoreIndex) {
  if (auto [other, isNew] = ignored.try_emplace(number, ignoreIndex);
      !isNew && other->second != ignoreIndex) {
    return emitError() << "two terms have the labels '"
                       << boundary().getName(number)
                       << "', one with ignore_index=" << other->second
                       << " and one with ignore_index=" << ignoreIndex
                       << "; give one of them another name";
  }
  // An input of the model that is looked up in a table has a range already.
  auto input = boundary().getArgument<graph::InputAttr>(number);
  std::optional<int64_t> known = input.getRange();
  boundary().setArgument(
      number,
      known ? input.withRange(std::min(classes, *known), input.getIgnored())
            : input.withRange(classes, ignoreIndex));
  return success();
}

/// `type` without dim `axis`.
static SmallVector<int64_t> rowsOf(RankedTensorType type, int64_t axis) {
  SmallVector<int64_t> rows(type.getShape());
  rows.erase(rows.begin() + axis);
  return rows;
}

FailureOr<int64_t> LossBuilder::findClasses(const Call &call,
                                            RankedTensorType type) {
  // Of [samples, classes] there is no choice; of none the caller complains.
  if (type.getRank() < 3)
    return type.getRank() - 1;
  const std::string &output = call.positional[0], &labels = call.positional[1];
  // The dims that are left are those of the labels, where the model takes them,
  // or else of what it takes one label for each: tokens.
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
    forward.emitRemark() << "--loss: the classes are dim " << axes[0] << " of '"
                         << output << "', " << type.getDimSize(axes[0])
                         << " of them: its other dims are those of '" << other
                         << "'";
    return axes[0];
  }
  InFlightDiagnostic diagnostic = emitError();
  diagnostic << "output '" << output << "' of type " << type
             << " may have its classes in any dim";
  if (!axes.empty())
    diagnostic << ", and dims " << llvm::interleaved(axes)
               << " both leave the dims of '" << other << "'";
  return diagnostic << "; say which: cross_entropy(" << output << "," << labels
                    << ",axis=1) as PyTorch's cross_entropy has it, axis="
                    << type.getRank() - 1 << " where the classes are last";
}

FailureOr<Loss> LossBuilder::buildCrossEntropy(const Call &call) {
  if (failed(expectPositional(call, {"OUTPUT", "LABELS"})))
    return failure();
  FailureOr<Value> logits = getOutput(call.positional[0]);
  if (failed(logits))
    return failure();
  RankedTensorType type = graph::getGlobalType(*logits);
  int64_t axis = std::numeric_limits<int64_t>::min(), ignoreIndex = -100;
  auto emit = [&] { return emitError(); };
  NamedArguments named(call, emit);
  named.take("axis", axis);
  named.take("ignore_index", ignoreIndex);
  if (failed(named.finish(otherLosses)))
    return failure();
  if (axis == std::numeric_limits<int64_t>::min()) {
    FailureOr<int64_t> found = findClasses(call, type);
    if (failed(found))
      return failure();
    axis = *found;
  } else if (axis < 0) {
    axis += type.getRank();
  }
  if (!isa<FloatType>(type.getElementType()) || axis < 0 ||
      axis >= type.getRank())
    return emitError() << "output '" << call.positional[0] << "' of type "
                       << type << " cannot be logits with the classes in dim "
                       << axis;
  auto labelType =
      RankedTensorType::get(rowsOf(type, axis), builder.getI64Type());
  FailureOr<Value> labels = getLabels(call.positional[1], labelType);
  if (failed(labels))
    return failure();
  if (failed(limitLabels(cast<BlockArgument>(*labels).getArgNumber(),
                         type.getDimSize(axis), ignoreIndex)))
    return failure();

  auto loss = graph::CrossEntropyOp::create(builder, parts.location, *logits,
                                            *labels, axis, ignoreIndex);
  Value counted =
      parts.compare(*labels, Comparison::NE,
                    parts.splat(*labels, static_cast<double>(ignoreIndex)));
  // A float, so that it is reduced together with the gradients; exact to 2^24.
  Value count = sumAll(parts.convert(counted, builder.getF32Type()));
  return Loss{sumAll(loss.getLoss()), count, labelType.getNumElements()};
}

FailureOr<Loss> LossBuilder::buildPair(const Call &call) {
  if (failed(expectPositional(call, {"OUTPUT", "TARGET"})))
    return failure();
  FailureOr<Value> output = getOutput(call.positional[0]);
  if (failed(output))
    return failure();
  RankedTensorType type = graph::getGlobalType(*output);
  if (!isa<FloatType>(type.getElementType()))
    return emitError() << "output '" << call.positional[0] << "' has type "
                       << type << "; " << call.name << " needs floats";
  FailureOr<Value> target = getLabels(call.positional[1], type);
  if (failed(target))
    return failure();
  auto emit = [&] { return emitError(); };
  FailureOr<Value> each =
      buildPairLoss(parts, call, *output, *target, emit, otherLosses);
  if (failed(each))
    return failure();
  int64_t targets = type.getNumElements();
  return Loss{sumAll(*each),
              graph::splat(builder, parts.location,
                           RankedTensorType::get({}, builder.getF32Type()),
                           static_cast<double>(targets)),
              targets};
}

/// Whether `value` is the same whatever the parameters and float inputs are.
static bool dependsOnIntegersAlone(Value value) {
  SmallVector<Value> work{value};
  llvm::SmallDenseSet<Value> seen;
  while (!work.empty()) {
    Value current = work.pop_back_val();
    if (!seen.insert(current).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(current)) {
      if (isa<FloatType>(graph::getGlobalType(argument).getElementType()))
        return false;
      continue;
    }
    llvm::append_range(work, current.getDefiningOp()->getOperands());
  }
  return true;
}

/// `value` through reshapes between tensors of one element.
static Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

FailureOr<Loss> LossBuilder::buildOutput(const Call &call) {
  if (failed(expectPositional(call, {"OUTPUT"})))
    return failure();
  FailureOr<Value> output = getOutput(call.positional[0]);
  auto emit = [&] { return emitError(); };
  if (failed(output) || failed(NamedArguments(call, emit).finish(otherLosses)))
    return failure();
  RankedTensorType type = graph::getGlobalType(*output);
  if (!isa<FloatType>(type.getElementType()) || type.getNumElements() != 1)
    return emitError() << "output '" << call.positional[0] << "' of type "
                       << type << " is not one number; name a loss as in "
                       << "cross_entropy(" << call.positional[0] << ",labels)";
  Loss mean = splitMean(*output);
  if (mean.count.getDefiningOp<graph::ConstantOp>())
    forward.emitRemark() << "--loss: '" << call.positional[0]
                         << "' is taken as a mean: the loss is its mean over "
                            "the microbatches, each with the same weight";
  else
    forward.emitRemark() << "--loss: '" << call.positional[0]
                         << "' is a sum over a number of targets: the loss is "
                            "their mean over the global batch";
  return mean;
}

Loss LossBuilder::splitMean(Value value) {
  auto scalar = [&](Value value) -> Value {
    if (graph::getShape(value).empty())
      return value;
    return graph::ReshapeOp::create(builder, parts.location, value,
                                    ArrayRef<int64_t>());
  };
  auto quotient = skipReshapes(value).getDefiningOp<graph::DivOp>();
  // How large the number can be is not known; 1 leaves the seed unscaled.
  if (quotient && dependsOnIntegersAlone(quotient.getRhs()) &&
      !skipReshapes(quotient.getRhs()).getDefiningOp<graph::ConstantOp>())
    return {scalar(quotient.getLhs()), scalar(quotient.getRhs()), 1};
  Value one = graph::splat(builder, parts.location,
                           RankedTensorType::get({}, builder.getF32Type()), 1);
  return {scalar(value), one, 1};
}

FailureOr<Loss> LossBuilder::buildTerm(const WeightedCall &term) {
  Call call = term.call;
  StringRef name = call.name;
  // As PyTorch calls them.
  for (StringRef module : {"torch.nn.functional.", "nn.functional.", "F."})
    if (name.consume_front(module))
      break;
  call.name = getPairLossName(name).str();
  if (call.name == "cross_entropy")
    return buildCrossEntropy(call);
  if (llvm::is_contained(getPairLosses(), StringRef(call.name)))
    return buildPair(call);
  if (call.name == "output")
    return buildOutput(call);
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (auto output = boundary().getResult<graph::OutputAttr>(i);
        output && output.getName() == name)
      return emitError() << "'" << name << "' is an output of the model and no "
                         << "loss; write output(" << name
                         << ") where it is the loss itself";
  std::vector<std::string> known{"cross_entropy", "output"};
  for (StringRef loss : getPairLosses())
    known.push_back(loss.str());
  return emitError() << "unknown loss '" << term.call.name
                     << "'; there are: cross_entropy(OUTPUT,LABELS), "
                        "output(OUTPUT), and of OUTPUT,TARGET: "
                     << llvm::join(getPairLosses(), ", ")
                     << nearestWords(call.name, known) << otherLosses;
}

FailureOr<SmallVector<NamedMean>> LossBuilder::build() {
  auto emit = [&] { return emitError(); };
  FailureOr<SmallVector<WeightedCall>> terms = parseSum(text, emit);
  if (failed(terms))
    return failure();
  SmallVector<NamedMean> means;
  llvm::StringSet<> used; // outputs that are terms
  for (const WeightedCall &term : *terms) {
    FailureOr<Loss> loss = buildTerm(term);
    if (failed(loss))
      return failure();
    if (term.call.name == "output")
      used.insert(term.call.positional[0]);
    means.push_back({*loss, term.text, term.weight});
  }
  auto yields = forward.getBody().front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(yields)) {
    auto output = boundary().getResult<graph::OutputAttr>(i);
    RankedTensorType type = graph::getGlobalType(value);
    if (output && type.getRank() == 0 &&
        isa<FloatType>(type.getElementType()) &&
        used.insert(output.getName()).second)
      means.push_back({splitMean(value), output.getName().str(), std::nullopt});
  }
  return means;
}

void AttachLoss::runOnOperation() {
  FailureOr<func::FuncOp> forward = getForward(getOperation());
  if (failed(forward))
    return signalPassFailure();
  FailureOr<SmallVector<NamedMean>> means = LossBuilder(*forward, loss).build();
  if (failed(means))
    return signalPassFailure();
  OpBuilder builder(&getContext());
  Operation *terminator = forward->getBody().front().getTerminator();
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  graph::Boundary boundary(*forward);
  auto add = [&](Value value, Attribute role) {
    results.push_back(value);
    attributes.push_back(graph::Boundary::asDictionary(role));
  };
  for (const NamedMean &each : *means) {
    auto weight =
        each.weight ? builder.getF64FloatAttr(*each.weight) : FloatAttr();
    add(each.mean.sum,
        graph::MeanAttr::get(&getContext(), builder.getStringAttr(each.name),
                             weight));
    add(each.mean.count,
        graph::CountAttr::get(&getContext(), each.mean.targets));
  }
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (auto next = boundary.getResult<graph::NextAttr>(i))
      add(value, next);
  terminator->setOperands(results);
  forward->setType(builder.getFunctionType(forward->getArgumentTypes(),
                                           terminator->getOperandTypes()));
  forward->setAllResultAttrs(attributes);
  eraseDeadOps(forward->getBody().front());
}
