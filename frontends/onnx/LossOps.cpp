// Import of the losses that a model computes itself. Its sum and the number of
// labels that count stay apart until they are divided, so `--loss output(NAME)`
// finds both.

#include <limits>

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using graph::Comparison;
using sharding::ReductionKind;

/// Labels [N, D..] of scores [N, C, D..].
struct Labels {
  Imported values; // int64
  int64_t ignored; // a label of this value does not count
  bool mayIgnore;
};

FailureOr<Labels> getLabels(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &given = n.operand(1);
  Shape scores = n.operand(0).getShape(), expected = scores;
  auto fail = [&](const Twine &reason) -> FailureOr<Labels> {
    (void)n.fail(reason);
    return failure();
  };
  if (scores.size() < 2 || !isa<FloatType>(n.operand(0).getElementType()))
    return fail("scores of " + toString(scores));
  expected.erase(expected.begin() + 1);
  if (given.getShape() != expected || !isa<IntegerType>(given.getElementType()))
    return fail("labels of " + toString(given.getShape()) + " for scores of " +
                toString(scores));
  if (n.has(2) && n.operand(2).getShape() != Shape{scores[1]})
    return fail("its weights " + toString(n.operand(2).getShape()) +
                " do not fit " + Twine(scores[1]) + " classes");
  bool mayIgnore = n.attribute("ignore_index") != nullptr;
  int64_t ignored =
      n.getInt("ignore_index", std::numeric_limits<int64_t>::min());
  n.emit.limitIndices(given, scores[1],
                      mayIgnore ? std::optional(ignored) : std::nullopt);
  return Labels{n.emit.convert(given, n.emit.getBuilder().getI64Type()),
                ignored, mayIgnore};
}

/// `y`, or zero where the label does not count.
Imported whereCounted(NodeImporter &n, const Labels &labels,
                      const Imported &y) {
  if (!labels.mayIgnore)
    return y;
  graph::Tensor ignored(labels.values.getElementType(), {});
  ignored.integers[0] = labels.ignored;
  bool known = labels.values.isConstant() && y.isConstant();
  return n.emit.select(n.emit.binaryOver<graph::CompareOp>(
                           labels.values, Imported(ignored), Comparison::NE),
                       y,
                       n.emit.broadcast(n.emit.scalar(y.getElementType(), 0),
                                        y.getShape(), !known));
}

/// Result 0: `losses`, one per label and zero where it does not count, weighted
/// by class and reduced. A mean is over the labels that count, by their
/// weights.
/// With `smoothing` that share of the loss is `smooth`.
LogicalResult reduceLosses(NodeImporter &n, const Labels &labels,
                           Imported losses, const Imported &smooth = {},
                           double smoothing = 0) {
  StringRef reduction = n.getString("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return n.fail("reduction `" + reduction + "`");
  Imported one = n.emit.scalar(losses.getElementType(), 1), weights;
  if (n.has(2)) {
    weights = whereCounted(n, labels,
                           n.emit.binary<graph::GatherOp>(
                               n.operand(2), labels.values, int64_t(0)));
    losses = n.emit.binary<graph::MulOp>(losses, weights);
  } else {
    weights = whereCounted(
        n, labels,
        n.emit.broadcast(one, losses.getShape(), !losses.isConstant()));
  }
  if (smoothing > 0) {
    auto scaled = [&](const Imported &x, double factor) {
      return n.emit.binaryOver<graph::MulOp>(
          x, n.emit.scalar(x.getElementType(), factor));
    };
    losses = n.emit.binary<graph::AddOp>(scaled(losses, 1 - smoothing),
                                         scaled(smooth, smoothing));
  }
  auto sum = [&](const Imported &x) {
    return n.emit.reduce(ReductionKind::Sum, x,
                         llvm::to_vector(llvm::seq<int64_t>(x.getRank())));
  };
  if (reduction == "none")
    n.result(0, losses);
  else if (reduction == "sum")
    n.result(0, sum(losses));
  else
    n.result(0, n.emit.binary<graph::DivOp>(sum(losses), sum(weights)));
  return success();
}

/// Of each label the mean over all classes of what they would cost, by their
/// weights: what `label_smoothing` takes part of.
Imported smoothLosses(NodeImporter &n, const Labels &labels,
                      const Imported &logProbabilities, int64_t classes) {
  Shape shape = logProbabilities.getShape();
  Imported costs = n.emit.unary<graph::NegOp>(logProbabilities);
  if (n.has(2)) {
    Shape spread(shape.size(), 1);
    spread[classes] = shape[classes];
    costs = n.emit.binaryOver<graph::MulOp>(
        costs, n.emit.reshape(n.operand(2), spread));
  }
  return whereCounted(n, labels, n.emit.mean(costs, classes));
}

/// Operand 0 are logits. Result 1 is their logarithmic softmax.
LogicalResult softmaxCrossEntropy(NodeImporter &n) {
  auto labels = getLabels(n);
  if (failed(labels))
    return failure();
  const Imported &scores = n.operand(0);
  constexpr int64_t classes = 1;
  SmallVector<Imported> results = n.emit.emit(
      {scores, labels->values}, [&](OpBuilder &b, ValueRange v) -> Operation * {
        return graph::CrossEntropyOp::create(b, n.emit.getLocation(), v[0],
                                             v[1], classes, labels->ignored);
      });
  // PyTorch's exporter drops it.
  double smoothing = n.isOf("aten.cross_entropy_loss")
                         ? n.argument(5, "label_smoothing", 0)
                         : 0;
  Imported logProbabilities;
  if (n.wants(1) || smoothing > 0)
    logProbabilities = logSoftmaxOf(n, scores, classes);
  if (n.wants(1))
    n.result(1, logProbabilities);
  if (smoothing == 0)
    return reduceLosses(n, *labels, results[0]);
  return reduceLosses(
      n, *labels, results[0],
      smoothLosses(n, *labels, logProbabilities, classes), smoothing);
}

/// Operand 0 are logarithms of probabilities: of each row the label's, negated.
LogicalResult negativeLogLikelihood(NodeImporter &n) {
  auto labels = getLabels(n);
  if (failed(labels))
    return failure();
  const Imported &scores = n.operand(0);
  Shape shape = scores.getShape();
  constexpr int64_t classes = 1;
  bool known = scores.isConstant() && labels->values.isConstant();
  Imported isLabel = n.emit.binary<graph::CompareOp>(
      n.emit.broadcast(n.emit.keepDims(labels->values, shape, classes), shape,
                       !known),
      n.emit.iota(shape, classes, labels->values.getElementType()),
      Comparison::EQ);
  Imported picked = n.emit.reduce(
      ReductionKind::Sum,
      n.emit.select(isLabel, scores,
                    n.emit.broadcast(n.emit.scalar(scores.getElementType(), 0),
                                     shape, !known)),
      classes);
  return reduceLosses(
      n, *labels, whereCounted(n, *labels, n.emit.unary<graph::NegOp>(picked)));
}

const OpRow rows[] = {
    {"", "SoftmaxCrossEntropyLoss", 12, softmaxCrossEntropy},
    {"", "NegativeLogLikelihoodLoss", 12, negativeLogLikelihood},
};

} // namespace

ArrayRef<OpRow> getLossRows() { return rows; }

} // namespace polyrank::frontends::onnx
