// Distances between vectors, and losses of distances.

#include <cmath>

#include "frontends/aten/Reduction.h"
#include "frontends/emit/Activations.h"
#include "frontends/emit/Arithmetic.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

/// max(x, 0); at 0 the whole gradient passes, as through clamp_min.
Imported positivePart(Call &c, const Imported &x) {
  return clipped(c.emit, x, c.emit.scalar(x.getElementType(), 0),
                 /*isLower=*/true, /*passes=*/true);
}

//===-- distances --------------------------------------------------------===//

/// The p-norm of x - y + eps along the last dim.
Imported distanceOf(Call &c, const Imported &x, const Imported &y, double p,
                    double eps) {
  Arithmetic a{c.emit};
  Imported difference = a.add(a.sub(x, y), eps);
  if (difference.getRank() == 0)
    return c.emit.unary<graph::AbsOp>(difference);
  return normOf(c.emit, difference, p, {difference.getRank() - 1});
}

LogicalResult pairwiseDistance(Call &c) {
  auto both = c.promote({c["x1"], c["x2"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Shape shape = both->operands[0].getShape();
  Imported result = distanceOf(c, both->operands[0], both->operands[1],
                               c.number("p"), c.number("eps"));
  if (c.flag("keepdim") && !shape.empty())
    result = c.emit.keepDims(result, shape,
                             {static_cast<int64_t>(shape.size()) - 1});
  return c.give(result, both->type);
}

/// The distances between each row of x1 [B.., P, M] and each of x2 [B.., R, M]:
/// [B.., P, R].
LogicalResult distances(Call &c) {
  Imported x = c.read("x1"), y = c.read("x2");
  Shape left = x.getShape(), right = y.getShape();
  if (left.size() < 2 || right.size() < 2 || left.back() != right.back())
    return c.fail("distances between rows of " + toString(left) + " and " +
                  toString(right));
  if (!isFloat(c.typeOf("x1")) || !isFloat(c.typeOf("x2")))
    return c.fail("distances of " + longNameOf(c.typeOf("x1")) + " and " +
                  longNameOf(c.typeOf("x2")) + "; convert them to float32");
  left.insert(left.end() - 1, 1);
  right.insert(right.end() - 2, 1);
  Arithmetic a{c.emit};
  auto common = broadcastShapes(left, right);
  if (failed(common) || failed(c.emit.fits(*common)))
    return c.fail("distances between rows of " + toString(x.getShape()) +
                  " and " + toString(y.getShape()));
  Imported difference =
      a.sub(c.emit.reshape(x, left), c.emit.reshape(y, right));
  return c.give(normOf(c.emit, difference, c.number("p"),
                       {static_cast<int64_t>(common->size()) - 1}),
                promoteTypes(c.typeOf("x1"), c.typeOf("x2")));
}

//===-- losses of distances ----------------------------------------------===//

/// max(d(anchor, positive) - d(anchor, negative) + margin, 0). With `swap`,
/// d(anchor, negative) is replaced by min(d(anchor, negative), d(positive,
/// negative)).
LogicalResult tripletMarginLoss(Call &c) {
  auto all = c.promote({c["anchor"], c["positive"], c["negative"]},
                       /*toFloat=*/true);
  if (failed(all))
    return failure();
  auto between = [&](size_t i, size_t j) {
    return distanceOf(c, all->operands[i], all->operands[j], c.number("p"),
                      c.number("eps"));
  };
  Arithmetic a{c.emit};
  Imported near = between(0, 1), far = between(0, 2);
  if (c.flag("swap"))
    far = c.emit.binary<graph::MinOp>(far, between(1, 2));
  return giveReduced(
      c, positivePart(c, a.add(a.sub(near, far), c.number("margin"))),
      all->type);
}

/// The sum of two terms. With EQ, `onSame` counts where the target is 1 and
/// `onOther` where it is -1; with NE, `onSame` counts where it is not -1 and
/// `onOther` where it is not 1. They differ for targets that are neither.
Imported bySign(Call &c, const Imported &target, Comparison comparison,
                const Imported &onSame, const Imported &onOther) {
  Arithmetic a{c.emit};
  bool isEqual = comparison == Comparison::EQ;
  return a.add(a.where(a.is(target, comparison, isEqual ? 1 : -1), onSame, 0),
               a.where(a.is(target, comparison, isEqual ? -1 : 1), onOther, 0));
}

/// 1 - cos where the target is 1, max(cos - margin, 0) where it is -1.
LogicalResult cosineEmbeddingLoss(Call &c) {
  auto both = c.promote({c["input1"], c["input2"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Arithmetic a{c.emit};
  const Imported &x = both->operands[0], &y = both->operands[1];
  Imported target = c.as(c["target"], both->type);
  if (x.getRank() < 1 || target.getRank() != x.getRank() - 1)
    return c.fail("targets of " + toString(target.getShape()) +
                  " for vectors of " + toString(x.getShape()));
  constexpr double epsilon = 1e-12; // PyTorch's
  SmallVector<int64_t> last = {x.getRank() - 1};
  auto squares = [&](const Imported &z) {
    return a.add(a.sum(a.square(z), last), epsilon);
  };
  Imported cosine =
      a.div(a.sum(a.mul(x, y), last),
            c.emit.unary<graph::SqrtOp>(a.mul(squares(x), squares(y))));
  Imported apart = positivePart(c, a.add(cosine, -c.number("margin")));
  return giveReduced(c,
                     bySign(c, target, Comparison::EQ, a.sub(1, cosine), apart),
                     both->type);
}

/// x where the target is 1, max(margin - x, 0) where it is -1.
LogicalResult hingeEmbeddingLoss(Call &c) {
  auto both = c.promote({c["self"], c["target"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Arithmetic a{c.emit};
  const Imported &x = both->operands[0], &target = both->operands[1];
  Imported apart = positivePart(c, a.sub(c.number("margin"), x));
  return giveReduced(c, bySign(c, target, Comparison::NE, x, apart),
                     both->type);
}

/// max(margin - target (x1 - x2), 0).
LogicalResult marginRankingLoss(Call &c) {
  auto all = c.promote({c["input1"], c["input2"], c["target"]},
                       /*toFloat=*/true);
  if (failed(all))
    return failure();
  Arithmetic a{c.emit};
  Imported gain =
      a.mul(all->operands[2], a.sub(all->operands[0], all->operands[1]));
  return giveReduced(c, positivePart(c, a.sub(c.number("margin"), gain)),
                     all->type);
}

/// log(1 + exp(-target x)), without overflow.
LogicalResult softMarginLoss(Call &c) {
  auto both = c.promote({c["self"], c["target"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Arithmetic a{c.emit};
  return giveReduced(
      c, softplusOf(c.emit, a.neg(a.mul(both->operands[0], both->operands[1]))),
      both->type);
}

/// exp(x) - target x or, if x is not a logarithm, x - target log(x + eps); with
/// `full`, also Stirling's approximation of log(target!) for targets above 1.
LogicalResult poissonLoss(Call &c) {
  auto both = c.promote({c["input"], c["target"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Arithmetic a{c.emit};
  const Imported &x = both->operands[0], &target = both->operands[1];
  auto logOf = [&](const Imported &y) { return c.emit.unary<graph::LogOp>(y); };
  Imported loss =
      c.flag("log_input")
          ? a.sub(c.emit.unary<graph::ExpOp>(x), a.mul(target, x))
          : a.sub(x, a.mul(target, logOf(a.add(x, c.number("eps")))));
  if (c.flag("full")) {
    Imported counts = a.is(target, Comparison::GT, 1);
    Imported number = a.where(counts, target, 1); // avoids a logarithm that is
                                                  // NaN
    Imported factorial = a.add(a.sub(a.mul(number, logOf(number)), number),
                               a.mul(logOf(a.mul(number, 2 * M_PI)), 0.5));
    loss = a.add(loss, a.where(counts, factorial, 0));
  }
  return giveReduced(c, loss, both->type);
}

//===-- margins between classes ------------------------------------------===//

/// Scores [N, C] and a label for each row.
struct Scores {
  Imported x, labels;
  int64_t count, classes;
};

/// The scores of self, [N, C] or [C], and a target with `labelDims` more dims
/// than one label for each row.
FailureOr<Scores> scoresOf(Call &c, int64_t labelDims) {
  Imported x = c.read("self"), target = c.read("target");
  Shape shape = x.getShape(), labels = target.getShape();
  if (shape.size() == 1) {
    shape.insert(shape.begin(), 1);
    // A single label of a single row may have a dim.
    if (static_cast<int64_t>(labels.size()) == labelDims)
      labels.insert(labels.begin(), 1);
  }
  Shape expected = {shape[0]};
  if (labelDims)
    expected.push_back(shape.back());
  if (shape.size() != 2 || labels != expected || !shape[1])
    return c.fail("targets of " + toString(target.getShape()) +
                  " for scores of " + toString(x.getShape()));
  if (failed(c.needIntegers("target")))
    return failure();
  return Scores{c.emit.reshape(x, shape), c.emit.reshape(target, labels),
                shape[0], shape[1]};
}

/// Gives a loss for each row of scores; if self has no rows, a scalar.
LogicalResult giveRows(Call &c, const Imported &losses) {
  return giveReduced(
      c, c.tensor("self")->getRank() == 1 ? c.emit.reshape(losses, {}) : losses,
      c.typeOf("self"));
}

/// The mean over all classes j other than y of max(0, margin - x[y] + x[j])^p,
/// times the weight of class y; the divisor counts class y.
LogicalResult multiMarginLoss(Call &c) {
  auto scores = scoresOf(c, /*labelDims=*/0);
  if (failed(scores))
    return failure();
  double p = c.number("p");
  if (p != 1 && p != 2)
    return c.fail("its p is " + std::to_string(p) + ", and 1 and 2 are there");
  Arithmetic a{c.emit};
  auto [x, labels, count, classes] = *scores;
  c.emit.limitIndices(labels, classes);
  Imported column = c.emit.reshape(labels, {count, 1});
  auto own = gatherAlong(c.emit, x, column, 1);
  if (failed(own))
    return failure();
  Imported margin = positivePart(c, a.add(a.sub(x, *own), c.number("margin")));
  if (p == 2)
    margin = a.square(margin);
  if (c.has("weight")) {
    if (c.tensor("weight")->getShape() != Shape{classes})
      return c.fail("its weight of " +
                    toString(c.tensor("weight")->getShape()) +
                    " does not fit " + Twine(classes) + " classes");
    margin = a.mul(margin, c.emit.binary<graph::GatherOp>(c.read("weight"),
                                                          column, int64_t(0)));
  }
  Imported isOther =
      a.is(c.emit.iota({count, classes}, 1, column.getElementType()),
           Comparison::NE, column);
  return giveRows(c, c.emit.mean(a.where(isOther, margin, 0), {1}));
}

/// A row of `target` lists classes up to its first negative number. The loss is
/// the sum of max(0, 1 - (x[j] - x[i])) over all listed classes j and all
/// classes i that are not listed, divided by the number of classes.
LogicalResult multilabelMarginLoss(Call &c) {
  auto scores = scoresOf(c, /*labelDims=*/1);
  if (failed(scores))
    return failure();
  Arithmetic a{c.emit};
  auto [x, target, count, classes] = *scores;
  Type type = x.getElementType(), integer = target.getElementType();
  // A position counts if no negative number is at or before it.
  auto ends = cumulativeSum(
      c.emit, c.emit.convert(a.is(target, Comparison::LT, 0), type), 1);
  if (failed(ends))
    return failure();
  Imported counts = a.is(*ends, Comparison::EQ, 0);
  Shape pairs = {count, classes, classes}; // [row, position j, class i]
  if (failed(c.emit.fits(pairs)))
    return failure();
  auto column = [&](const Imported &y) {
    return c.emit.reshape(y, {count, classes, 1});
  };
  Imported names = a.both(
      a.is(c.emit.iota(pairs, 2, integer), Comparison::EQ, column(target)),
      column(counts));
  Imported isNamed = c.emit.reduce(sharding::ReductionKind::Max, names, {1});
  auto named = gatherAlong(c.emit, x, a.where(counts, target, 0), 1);
  if (failed(named))
    return failure();
  Imported row = c.emit.reshape(x, {count, 1, classes});
  Imported margin = positivePart(c, a.add(a.sub(row, column(*named)), 1));
  Imported isPair = a.both(
      column(counts),
      c.emit.unary<graph::NotOp>(c.emit.reshape(isNamed, {count, 1, classes})));
  auto all = c.emit.broadcast(isPair, pairs, !margin.isConstant());
  return giveRows(c, a.mul(a.sum(a.where(all, margin, 0), {1, 2}),
                           1.0 / static_cast<double>(classes)));
}

const OperatorRow rows[] = {
    {"pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, "
     "bool keepdim=False) -> Tensor",
     pairwiseDistance},
    {"cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> "
     "Tensor",
     distances},
    {"triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, "
     "float margin=1.0, float p=2, float eps=1e-06, bool swap=False, int "
     "reduction=1) -> Tensor",
     tripletMarginLoss},
    {"cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, "
     "float margin=0.0, int reduction=1) -> Tensor",
     cosineEmbeddingLoss},
    {"hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int "
     "reduction=1) -> Tensor",
     hingeEmbeddingLoss},
    {"margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float "
     "margin=0.0, int reduction=1) -> Tensor",
     marginRankingLoss},
    {"soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
     softMarginLoss},
    {"poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, "
     "float eps, int reduction) -> Tensor",
     poissonLoss},
    {"multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar "
     "margin=1, Tensor? weight=None, int reduction=1) -> Tensor",
     multiMarginLoss},
    {"multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> "
     "Tensor",
     multilabelMarginLoss},
};

} // namespace

ArrayRef<OperatorRow> getDistanceRows() { return rows; }

} // namespace polyrank::frontends::aten
