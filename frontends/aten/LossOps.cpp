// Losses that the model computes itself.

#include "frontends/emit/Losses.h"

#include <cmath>

#include "frontends/aten/Reduction.h"
#include "frontends/emit/Activations.h"
#include "frontends/emit/Functions.h"

using namespace mlir;

namespace polyrank::frontends::aten {

using graph::Comparison;
using sharding::ReductionKind;

/// The name of an at::Reduction.
static FailureOr<StringRef> reductionOf(Call &c) {
  switch (c.integer("reduction")) {
  case 0:
    return StringRef("none");
  case 1:
    return StringRef("mean");
  case 2:
    return StringRef("sum");
  default:
    return c.fail("reduction " + Twine(c.integer("reduction")));
  }
}

LogicalResult giveReduced(Call &c, const Imported &x, ElementType type) {
  auto reduction = reductionOf(c);
  if (failed(reduction))
    return failure();
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(x.getRank()));
  if (*reduction == "mean")
    return c.give(c.emit.mean(x, dims), type);
  return c.give(*reduction == "sum" ? c.emit.reduce(ReductionKind::Sum, x, dims)
                                    : x,
                type);
}

namespace {

//===-- labels -----------------------------------------------------------===//

/// Scores [C], [N, C] or [N, C, D..] and labels without C.
FailureOr<LabelLoss> labelLoss(Call &c, Imported &labels) {
  auto reduction = reductionOf(c);
  if (failed(reduction))
    return failure();
  LabelLoss loss;
  loss.reduction = *reduction;
  loss.scores = c.read("self");
  loss.weights = c.read("weight");
  labels = c.read("target");
  if (loss.scores.getRank() == 1 && labels.getRank() == 0) {
    loss.scores = c.emit.reshape(loss.scores, {1, loss.scores.getShape()[0]});
    labels = c.emit.reshape(labels, {1});
  }
  // Labels below 0 belong to no class; by default -100 is ignored.
  loss.ignored = c.integer("ignore_index");
  if (c.has("label_smoothing"))
    loss.smoothing = c.number("label_smoothing");
  return loss;
}

/// The loss of one sample without a batch has no dims.
LogicalResult giveLoss(Call &c, const FailureOr<Imported> &loss) {
  if (failed(loss))
    return failure();
  Imported result = *loss;
  if (c.tensor("target")->getRank() == 0 && result.getRank() == 1)
    result = c.emit.reshape(result, {});
  return c.give(result, c.typeOf("self"));
}

/// For targets that are class probabilities: - sum target log softmax(x).
LogicalResult softCrossEntropy(Call &c) {
  auto reduction = reductionOf(c);
  if (failed(reduction))
    return failure();
  Imported x = c.read("self"), target = c.as(c["target"], c.typeOf("self"));
  Shape shape = x.getShape();
  if (target.getShape() != shape || shape.empty())
    return c.fail("targets of " + toString(target.getShape()) +
                  " for scores of " + toString(shape));
  int64_t classes = shape.size() == 1 ? 0 : 1;
  auto times = [&](const Imported &y, double factor) {
    return c.emit.binaryOver<graph::MulOp>(
        y, c.emit.scalar(y.getElementType(), factor));
  };
  double smoothing = c.number("label_smoothing");
  if (smoothing > 0)
    target = c.emit.binaryOver<graph::AddOp>(
        times(target, 1 - smoothing),
        c.emit.scalar(x.getElementType(),
                      smoothing / static_cast<double>(shape[classes])));
  Imported costs = c.emit.binary<graph::MulOp>(
      c.emit.unary<graph::NegOp>(logSoftmaxOf(c.emit, x, classes)), target);
  if (c.has("weight")) {
    Shape spread(shape.size(), 1);
    spread[classes] = shape[classes];
    if (c.tensor("weight")->getShape() != Shape{shape[classes]})
      return c.fail("its weight of " +
                    toString(c.tensor("weight")->getShape()) +
                    " does not fit " + Twine(shape[classes]) + " classes");
    costs = c.emit.binaryOver<graph::MulOp>(
        costs, c.emit.reshape(c.read("weight"), spread));
  }
  Imported losses = c.emit.reduce(ReductionKind::Sum, costs, {classes});
  return giveReduced(c, losses, c.typeOf("self"));
}

LogicalResult crossEntropyLoss(Call &c) {
  if (isFloat(c.typeOf("target")))
    return softCrossEntropy(c);
  Imported labels;
  auto loss = labelLoss(c, labels);
  if (failed(loss))
    return failure();
  return giveLoss(c, crossEntropy(c.emit, *loss, labels));
}

LogicalResult nllLoss(Call &c) {
  Imported labels;
  auto loss = labelLoss(c, labels);
  if (failed(loss))
    return failure();
  return giveLoss(c, negativeLogLikelihood(c.emit, *loss, labels));
}

//===-- distances --------------------------------------------------------===//

/// self - target, in their common type and shape.
FailureOr<Call::Together> difference(Call &c) {
  auto both = c.promote({c["self"], c["target"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  both->operands[0] =
      c.emit.binary<graph::SubOp>(both->operands[0], both->operands[1]);
  return both;
}

LogicalResult mseLoss(Call &c) {
  auto rest = difference(c);
  if (failed(rest))
    return failure();
  const Imported &x = rest->operands[0];
  return giveReduced(c, c.emit.binary<graph::MulOp>(x, x), rest->type);
}

LogicalResult l1Loss(Call &c) {
  auto rest = difference(c);
  if (failed(rest))
    return failure();
  return giveReduced(c, c.emit.unary<graph::AbsOp>(rest->operands[0]),
                     rest->type);
}

/// x^2 / 2 near 0, continued beyond `delta` by a line with the same slope; for
/// smooth L1 divided by delta.
LogicalResult huber(Call &c, double delta, bool isSmoothL1) {
  auto rest = difference(c);
  if (failed(rest))
    return failure();
  Imported x = rest->operands[0], size = c.emit.unary<graph::AbsOp>(x);
  auto scalar = [&](double value) {
    return c.emit.scalar(x.getElementType(), value);
  };
  auto times = [&](const Imported &y, double factor) {
    return c.emit.binaryOver<graph::MulOp>(y, scalar(factor));
  };
  if (isSmoothL1 && delta == 0)
    return giveReduced(c, size, rest->type);
  if (!(delta > 0))
    return c.fail("its beta or delta is " + std::to_string(delta));
  Imported square =
      times(c.emit.binary<graph::MulOp>(x, x), isSmoothL1 ? 0.5 / delta : 0.5);
  Imported line = c.emit.binaryOver<graph::SubOp>(size, scalar(0.5 * delta));
  if (!isSmoothL1)
    line = times(line, delta);
  Imported isNear =
      c.emit.binaryOver<graph::CompareOp>(size, scalar(delta), Comparison::LT);
  return giveReduced(c, c.emit.select(isNear, square, line), rest->type);
}

LogicalResult smoothL1Loss(Call &c) {
  return huber(c, c.number("beta"), /*isSmoothL1=*/true);
}
LogicalResult huberLoss(Call &c) {
  return huber(c, c.number("delta"), /*isSmoothL1=*/false);
}

//===-- probabilities ----------------------------------------------------===//

/// Multiplies losses by the weight of each element, and reduces them.
LogicalResult giveWeighted(Call &c, Imported losses, ElementType type) {
  if (c.has("weight"))
    losses = c.emit.binaryOver<graph::MulOp>(losses, c.read("weight"));
  return giveReduced(c, losses, type);
}

/// - (y log x + (1 - y) log(1 - x)), with logarithms of at least -100.
LogicalResult binaryCrossEntropy(Call &c) {
  auto both = c.promote({c["self"], c["target"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Imported x = both->operands[0], y = both->operands[1];
  auto scalar = [&](double value) {
    return c.emit.scalar(x.getElementType(), value);
  };
  auto restOf = [&](const Imported &z) {
    return c.emit.binaryOver<graph::AddOp>(c.emit.unary<graph::NegOp>(z),
                                           scalar(1));
  };
  auto logOf = [&](const Imported &z) {
    return clipped(c.emit, c.emit.unary<graph::LogOp>(z), scalar(-100),
                   /*isLower=*/true, /*passes=*/true);
  };
  Imported sum = c.emit.binary<graph::AddOp>(
      c.emit.binary<graph::MulOp>(y, logOf(x)),
      c.emit.binary<graph::MulOp>(restOf(y), logOf(restOf(x))));
  return giveWeighted(c, c.emit.unary<graph::NegOp>(sum), both->type);
}

/// (1 - y) x + (1 + (p - 1) y) softplus(-x), where p is the weight of positive
/// labels.
LogicalResult binaryCrossEntropyWithLogits(Call &c) {
  auto both = c.promote({c["self"], c["target"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Imported x = both->operands[0], y = both->operands[1];
  auto one = c.emit.scalar(x.getElementType(), 1);
  Imported rest =
      c.emit.binaryOver<graph::AddOp>(c.emit.unary<graph::NegOp>(y), one);
  Imported soft = softplusOf(c.emit, c.emit.unary<graph::NegOp>(x));
  if (c.has("pos_weight")) {
    Imported more = c.emit.binaryOver<graph::SubOp>(c.read("pos_weight"), one);
    Imported factor = c.emit.binaryOver<graph::AddOp>(
        c.emit.binaryOver<graph::MulOp>(y, more), one);
    soft = c.emit.binary<graph::MulOp>(soft, factor);
  }
  return giveWeighted(
      c,
      c.emit.binary<graph::AddOp>(c.emit.binary<graph::MulOp>(rest, x), soft),
      both->type);
}

/// target (log target - x), and 0 where the target is 0.
LogicalResult klDivergence(Call &c) {
  auto both = c.promote({c["self"], c["target"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Imported x = both->operands[0], y = both->operands[1], result;
  if (c.flag("log_target")) {
    result = c.emit.binary<graph::MulOp>(c.emit.unary<graph::ExpOp>(y),
                                         c.emit.binary<graph::SubOp>(y, x));
  } else {
    auto spread = [&](double value) {
      return c.emit.broadcast(c.emit.scalar(y.getElementType(), value),
                              y.getShape(), !y.isConstant());
    };
    Imported isPositive = c.emit.binaryOver<graph::CompareOp>(
        y, c.emit.scalar(y.getElementType(), 0), Comparison::GT);
    Imported logarithm =
        c.emit.unary<graph::LogOp>(c.emit.select(isPositive, y, spread(1)));
    result = c.emit.binary<graph::MulOp>(
        y, c.emit.binary<graph::SubOp>(logarithm, x));
  }
  return giveReduced(c, result, both->type);
}

//===-- angles -----------------------------------------------------------===//

/// x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along a dim.
LogicalResult cosineSimilarity(Call &c) {
  auto both = c.promote({c["x1"], c["x2"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Imported x = both->operands[0], y = both->operands[1];
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  Shape shape = x.getShape();
  auto unit = [&](const Imported &z) {
    Imported length = rootOf(
        c.emit, c.emit.reduce(ReductionKind::Sum,
                              c.emit.binary<graph::MulOp>(z, z), {*dim}));
    length = c.emit.binaryOver<graph::MaxOp>(
        length, c.emit.scalar(z.getElementType(), c.number("eps")));
    return c.emit.binaryOver<graph::DivOp>(
        z, c.emit.keepDims(length, shape, {*dim}));
  };
  return c.give(c.emit.reduce(ReductionKind::Sum,
                              c.emit.binary<graph::MulOp>(unit(x), unit(y)),
                              {*dim}),
                both->type);
}

const OperatorRow rows[] = {
    {"cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, "
     "int reduction=1, SymInt ignore_index=-100, float "
     "label_smoothing=0.) -> Tensor",
     crossEntropyLoss},
    {"nll_loss(Tensor self, Tensor target, Tensor? weight=None, int "
     "reduction=1, SymInt ignore_index=-100) -> Tensor",
     nllLoss},
    {"nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int "
     "reduction=1, SymInt ignore_index=-100) -> Tensor",
     nllLoss},
    {"nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int "
     "reduction=1, SymInt ignore_index=-100) -> Tensor",
     nllLoss},
    {"mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
     mseLoss},
    {"l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", l1Loss},
    {"smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float "
     "beta=1.) -> Tensor",
     smoothL1Loss},
    {"huber_loss(Tensor self, Tensor target, int reduction=1, float "
     "delta=1.) -> Tensor",
     huberLoss},
    {"binary_cross_entropy(Tensor self, Tensor target, Tensor? "
     "weight=None, int reduction=1) -> Tensor",
     binaryCrossEntropy},
    {"binary_cross_entropy_with_logits(Tensor self, Tensor target, "
     "Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> "
     "Tensor",
     binaryCrossEntropyWithLogits},
    {"kl_div(Tensor self, Tensor target, int reduction=1, *, bool "
     "log_target=False) -> Tensor",
     klDivergence},
    {"cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) "
     "-> Tensor",
     cosineSimilarity},
};

} // namespace

ArrayRef<OperatorRow> getLossRows() { return rows; }

} // namespace polyrank::frontends::aten
