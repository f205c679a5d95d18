// Losses of class scores and labels.

#include "frontends/emit/Losses.h"

#include <limits>

#include "frontends/emit/Functions.h"

using namespace mlir;

namespace polyrank::frontends {
namespace {

using graph::Comparison;
using sharding::ReductionKind;

/// The labels [N, D..] of scores [N, C, D..].
struct Labels {
  Imported values; // int64
  int64_t ignored; // labels with this value do not count
  bool mayIgnore;
};

FailureOr<Labels> getLabels(Emitter &emit, const Imported &given,
                            const LabelLoss &loss) {
  Shape scores = loss.scores.getShape(), expected = scores;
  if (scores.size() < 2 || !isa<FloatType>(loss.scores.getElementType()))
    return emit.fail("scores of " + toString(scores));
  expected.erase(expected.begin() + 1);
  if (given.getShape() != expected || !isa<IntegerType>(given.getElementType()))
    return emit.fail("labels of " + toString(given.getShape()) +
                     " for scores of " + toString(scores));
  if (loss.weights && loss.weights.getShape() != Shape{scores[1]})
    return emit.fail("its weights " + toString(loss.weights.getShape()) +
                     " do not fit " + Twine(scores[1]) + " classes");
  bool mayIgnore = loss.ignored.has_value();
  int64_t ignored = loss.ignored.value_or(std::numeric_limits<int64_t>::min());
  emit.limitIndices(given, scores[1],
                    mayIgnore ? std::optional(ignored) : std::nullopt);
  return Labels{emit.convert(given, emit.getBuilder().getI64Type()), ignored,
                mayIgnore};
}

/// `y`, or zero for labels that do not count.
Imported whereCounted(Emitter &emit, const Labels &labels, const Imported &y) {
  if (!labels.mayIgnore)
    return y;
  graph::Tensor ignored(labels.values.getElementType(), {});
  ignored.integers[0] = labels.ignored;
  bool known = labels.values.isConstant() && y.isConstant();
  return emit.select(
      emit.binaryOver<graph::CompareOp>(labels.values, Imported(ignored),
                                        Comparison::NE),
      y,
      emit.broadcast(emit.scalar(y.getElementType(), 0), y.getShape(), !known));
}

/// Weights `losses` by class and reduces them. There is one loss per label,
/// zero for labels that do not count; a mean is weighted and over the labels
/// that count. With `smoothing`, that share of the loss is `smooth`.
FailureOr<Imported> reduceLosses(Emitter &emit, const LabelLoss &loss,
                                 const Labels &labels, Imported losses,
                                 const Imported &smooth = {}) {
  StringRef reduction = loss.reduction;
  double smoothing = smooth ? loss.smoothing : 0;
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return emit.fail("reduction `" + reduction + "`");
  Imported one = emit.scalar(losses.getElementType(), 1), weights;
  if (loss.weights) {
    weights = whereCounted(
        emit, labels,
        emit.binary<graph::GatherOp>(loss.weights, labels.values, int64_t(0)));
    losses = emit.binary<graph::MulOp>(losses, weights);
  } else {
    weights = whereCounted(
        emit, labels,
        emit.broadcast(one, losses.getShape(), !losses.isConstant()));
  }
  if (smoothing > 0) {
    auto scaled = [&](const Imported &x, double factor) {
      return emit.binaryOver<graph::MulOp>(
          x, emit.scalar(x.getElementType(), factor));
    };
    losses = emit.binary<graph::AddOp>(scaled(losses, 1 - smoothing),
                                       scaled(smooth, smoothing));
  }
  auto sum = [&](const Imported &x) {
    return emit.reduce(ReductionKind::Sum, x,
                       llvm::to_vector(llvm::seq<int64_t>(x.getRank())));
  };
  if (reduction == "none")
    return losses;
  if (reduction == "sum")
    return sum(losses);
  return emit.binary<graph::DivOp>(sum(losses), sum(weights));
}

/// The smoothed part of the loss (`label_smoothing`): for each label the mean
/// over all classes of their weighted losses.
Imported smoothLosses(Emitter &emit, const LabelLoss &loss,
                      const Labels &labels, const Imported &logProbabilities,
                      int64_t classes) {
  Shape shape = logProbabilities.getShape();
  Imported costs = emit.unary<graph::NegOp>(logProbabilities);
  if (loss.weights) {
    Shape spread(shape.size(), 1);
    spread[classes] = shape[classes];
    costs = emit.binaryOver<graph::MulOp>(costs,
                                          emit.reshape(loss.weights, spread));
  }
  return whereCounted(emit, labels, emit.mean(costs, classes));
}

constexpr int64_t classes = 1;

} // namespace

FailureOr<Imported> crossEntropy(Emitter &emit, const LabelLoss &loss,
                                 const Imported &given,
                                 Imported *logProbabilities) {
  auto labels = getLabels(emit, given, loss);
  if (failed(labels))
    return failure();
  Imported losses = emit.emit({loss.scores, labels->values},
                              [&](OpBuilder &b, ValueRange v) -> Operation * {
                                return graph::CrossEntropyOp::create(
                                    b, emit.getLocation(), v[0], v[1], classes,
                                    labels->ignored);
                              })[0];
  Imported logarithms, smooth;
  if (logProbabilities || loss.smoothing > 0)
    logarithms = logSoftmaxOf(emit, loss.scores, classes);
  if (logProbabilities)
    *logProbabilities = logarithms;
  if (loss.smoothing > 0)
    smooth = smoothLosses(emit, loss, *labels, logarithms, classes);
  return reduceLosses(emit, loss, *labels, losses, smooth);
}

FailureOr<Imported> negativeLogLikelihood(Emitter &emit, const LabelLoss &loss,
                                          const Imported &given) {
  auto labels = getLabels(emit, given, loss);
  if (failed(labels))
    return failure();
  const Imported &scores = loss.scores;
  Shape shape = scores.getShape();
  bool known = scores.isConstant() && labels->values.isConstant();
  Imported isLabel = emit.binary<graph::CompareOp>(
      emit.broadcast(emit.keepDims(labels->values, shape, classes), shape,
                     !known),
      emit.iota(shape, classes, labels->values.getElementType()),
      Comparison::EQ);
  Imported picked = emit.reduce(
      ReductionKind::Sum,
      emit.select(isLabel, scores,
                  emit.broadcast(emit.scalar(scores.getElementType(), 0), shape,
                                 !known)),
      classes);
  return reduceLosses(
      emit, loss, *labels,
      whereCounted(emit, *labels, emit.unary<graph::NegOp>(picked)));
}

} // namespace polyrank::frontends
