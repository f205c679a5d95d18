// Import of the ops that act otherwise in training: dropout, random numbers
// and batch normalization.

#include <cmath>

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using sharding::ReductionKind;

//===-- dropout ----------------------------------------------------------===//

/// The identity, unless the model was exported in training mode or the user
/// wants another rate.
LogicalResult dropout(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  bool training = false;
  double rate = n.getFloat("ratio", 0.5);
  if (n.since >= 12 && n.has(2)) {
    auto mode = n.integer(2, "training_mode");
    if (failed(mode))
      return failure();
    training = *mode != 0;
    if (n.has(1)) {
      auto ratio = n.number(1, "ratio");
      if (failed(ratio))
        return failure();
      rate = *ratio;
    }
  }
  // That of attention comes in inference form, whatever the model's mode.
  if (double given = attentionDropout(n.node); given > 0) {
    rate = given;
    training = true;
  }
  if (n.options.dropout) {
    rate = *n.options.dropout;
    training = true;
  }
  if (!(rate >= 0 && rate < 1))
    return n.fail("its ratio is " + std::to_string(rate) +
                  "; it must be in [0, 1)");
  bool drops = training && rate > 0;
  n.result(0, drops ? n.emit.dropout(x, rate) : x);
  // The mask of dropout in training is used by nothing that PyTorch writes.
  if (!drops && n.wants(1))
    n.result(1,
             n.emit.broadcast(
                 n.emit.scalar(
                     IntegerType::get(n.emit.getBuilder().getContext(), 1), 1),
                 x.getShape(), false));
  return success();
}

//===-- random numbers ---------------------------------------------------===//

/// Stochastic depth, and PyTorch's dropout in place, draw numbers and compare
/// them. They come from the plan's seed; a seed in the file is its exporter's.
FailureOr<Imported> drawUniform(NodeImporter &n, const Shape &shape) {
  if (failed(n.fits(shape)))
    return failure();
  if (n.options.dropout)
    return n.fail("--dropout does not reach random numbers that the model "
                  "draws itself; export it after model.eval(), or with "
                  "Dropout(inplace=False)");
  return n.emit.uniform(shape);
}

/// `like`: the shape is that of operand 0, else an attribute.
FailureOr<Shape> shapeOfDraw(NodeImporter &n, bool like) {
  if (like) {
    if (failed(n.need(1)))
      return failure();
    return n.operand(0).getShape();
  }
  auto given = n.integersFrom("shape", SIZE_MAX);
  if (failed(given))
    return failure();
  return given->value_or(Shape());
}

template <bool like>
LogicalResult randomNormal(NodeImporter &n) {
  auto shape = shapeOfDraw(n, like);
  if (failed(shape))
    return failure();
  auto radius = drawUniform(n, *shape), angle = drawUniform(n, *shape);
  if (failed(radius) || failed(angle))
    return failure();
  auto scalar = [&](double value) {
    return n.emit.scalar(radius->getElementType(), value);
  };
  auto times = [&](const Imported &x, double factor) {
    return n.emit.binaryOver<graph::MulOp>(x, scalar(factor));
  };
  // Box and Muller 1958; 1 - u is in (0, 1], whose logarithm is finite.
  Imported rest = n.emit.binaryOver<graph::AddOp>(times(*radius, -1), scalar(1));
  Imported length = n.emit.unary<graph::SqrtOp>(
      times(n.emit.unary<graph::LogOp>(rest), -2));
  Imported result = n.emit.binary<graph::MulOp>(
      length, n.emit.unary<graph::CosOp>(times(*angle, 2 * M_PI)));
  double mean = n.getFloat("mean", 0), scale = n.getFloat("scale", 1);
  if (scale != 1)
    result = times(result, scale);
  if (mean != 0)
    result = n.emit.binaryOver<graph::AddOp>(result, scalar(mean));
  n.result(0, result);
  return success();
}

template <bool like>
LogicalResult randomUniform(NodeImporter &n) {
  auto shape = shapeOfDraw(n, like);
  if (failed(shape))
    return failure();
  auto drawn = drawUniform(n, *shape);
  if (failed(drawn))
    return failure();
  double low = n.getFloat("low", 0), high = n.getFloat("high", 1);
  auto scalar = [&](double value) {
    return n.emit.scalar(drawn->getElementType(), value);
  };
  Imported result = *drawn;
  if (high - low != 1)
    result = n.emit.binaryOver<graph::MulOp>(result, scalar(high - low));
  if (low != 0)
    result = n.emit.binaryOver<graph::AddOp>(result, scalar(low));
  n.result(0, result);
  return success();
}

/// 1 with the probability that operand 0 gives, else 0.
LogicalResult bernoulli(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  auto drawn = drawUniform(n, x.getShape());
  if (failed(drawn))
    return failure();
  Type type = x.getElementType();
  if (n.attribute("dtype")) {
    type = toElementType(n.emit.getBuilder().getContext(),
                         static_cast<DataType>(n.getInt("dtype", 0)));
    if (!type)
      return n.fail("its dtype " + Twine(n.getInt("dtype", 0)));
  }
  n.result(0, n.emit.convert(n.emit.binary<graph::CompareOp>(
                                 *drawn, x, graph::Comparison::LT),
                             type));
  return success();
}

//===-- batch normalization ----------------------------------------------===//

/// One per channel (dim 1), repeated over `shape`.
Imported perChannel(NodeImporter &n, const Imported &y, const Shape &shape) {
  Shape channel(shape.size(), 1);
  channel[1] = shape[1];
  return n.emit.broadcast(n.emit.reshape(y, channel), shape,
                          !n.operand(0).isConstant());
}

/// x with its mean and variance: (x - mean) / sqrt(variance + epsilon) * scale
/// + bias.
Imported normalize(NodeImporter &n, const Imported &centred,
                   const Imported &variance, const Shape &statistics) {
  Imported epsilon =
      n.emit.scalar(variance.getElementType(), n.getFloat("epsilon", 1e-5));
  Imported rstd = n.emit.unary<graph::RsqrtOp>(
      n.emit.binaryOver<graph::AddOp>(variance, epsilon));
  return n.emit.binaryOver<graph::MulOp>(centred,
                                         n.emit.reshape(rstd, statistics));
}

Imported scaleAndShift(NodeImporter &n, const Imported &normalized,
                       const Shape &shape) {
  return n.emit.binary<graph::AddOp>(
      n.emit.binary<graph::MulOp>(normalized,
                                  perChannel(n, n.operand(1), shape)),
      perChannel(n, n.operand(2), shape));
}

/// Whether the model computes `statistic` itself, as PyTorch's exporter writes
/// a normalization that keeps none (track_running_stats=False, standardized
/// weights): nothing is left to say then.
bool isComputed(const Imported &statistic) {
  Value value = statistic.value;
  while (value && isa_and_present<graph::ReshapeOp, graph::ConvertOp>(
                      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value && value.getDefiningOp() &&
         !isa<graph::ConstantOp>(value.getDefiningOp());
}

/// The stored statistic, operand `i` and result `i - 2`, moves towards that of
/// the batch, from where an earlier use of the same layer has left it.
LogicalResult follow(NodeImporter &n, size_t i, const Imported &batch) {
  const Imported &stored = n.operand(i);
  if (isComputed(stored) || n.operand(0).isConstant())
    return success(); // no state of the model
  if (!isParameter(stored))
    return n.fail("its running statistics are not stored in the file as a "
                  "buffer of the model, so they cannot follow the batch");
  double momentum = n.getFloat("momentum", 0.9);
  auto scaled = [&](const Imported &x, double factor) {
    return n.emit.binaryOver<graph::MulOp>(
        x, n.emit.scalar(x.getElementType(), factor));
  };
  Imported next = n.emit.binary<graph::AddOp>(
      scaled(n.emit.getUpdated(stored.value), momentum),
      scaled(batch, 1 - momentum));
  n.emit.update(stored.value, next.value);
  n.result(i - 2, next);
  return success();
}

/// Ioffe and Szegedy (2015), with PyTorch's choices: the batch is normalized
/// with its biased variance, and the running variance follows the unbiased one.
/// The variance is that of centred values (two passes), so it does not cancel.
LogicalResult normalizeByBatch(NodeImporter &n) {
  const Imported &x = n.operand(0);
  Shape shape = x.getShape();
  int64_t group =
      n.options.batchNormGroup ? n.options.batchNormGroup : shape[0];
  if (group < 1 || shape[0] % group != 0)
    return n.fail("--batch-norm local=" + Twine(group) +
                  " does not divide the batch of " + Twine(shape[0]));
  // [groups, samples, C, ..], of which all but groups and C are averaged.
  int64_t groups = shape[0] / group;
  Shape grouped = shape;
  grouped[0] = group;
  grouped.insert(grouped.begin(), groups);
  Shape statistics(grouped.size(), 1);
  statistics[0] = groups;
  statistics[2] = shape[1];
  SmallVector<int64_t> averaged = {1};
  int64_t count = group;
  for (int64_t d = 3, rank = grouped.size(); d < rank; ++d) {
    averaged.push_back(d);
    count *= grouped[d];
  }
  if (count < 2)
    return n.fail("batch normalization over a single value per channel");
  auto average = [&](const Imported &y, ArrayRef<int64_t> dims, double over) {
    Imported sum = n.emit.reduce(ReductionKind::Sum, y, dims);
    return n.emit.binaryOver<graph::MulOp>(
        sum, n.emit.scalar(sum.getElementType(), 1 / over));
  };
  Imported value = n.emit.reshape(x, grouped);
  Imported mean = average(value, averaged, count); // [groups, C]
  Imported centred =
      n.emit.binaryOver<graph::SubOp>(value, n.emit.reshape(mean, statistics));
  Imported variance =
      average(n.emit.binary<graph::MulOp>(centred, centred), averaged, count);
  Imported normalized = normalize(n, centred, variance, statistics);
  n.result(0, scaleAndShift(n, n.emit.reshape(normalized, shape), shape));
  double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  if (failed(follow(n, 3, average(mean, {0}, groups))) ||
      failed(follow(n, 4, average(variance, {0}, groups / unbiased))))
    return failure();
  return success();
}

LogicalResult batchNormalization(NodeImporter &n) {
  if (failed(n.need(5)))
    return failure();
  const Imported &x = n.operand(0);
  if (x.getRank() < 2)
    return n.fail("BatchNormalization of " + toString(x.getShape()));
  bool saysTraining = n.getInt("training_mode", 0) || n.wants(1);
  bool hasStatistics =
      !saysTraining && isComputed(n.operand(3)) && isComputed(n.operand(4));
  if (!hasStatistics &&
      (n.options.batchNorm == BatchNorm::Batch ||
       (saysTraining && n.options.batchNorm == BatchNorm::Unset)))
    return normalizeByBatch(n);
  if (!hasStatistics && n.options.training &&
      n.options.batchNorm == BatchNorm::Unset)
    return n.fail(
        "batch normalization is in its inference form, which PyTorch's "
        "exporter writes in any mode; say what training does: --batch-norm "
        "batch (statistics of the global batch, as one process has them), "
        "--batch-norm local=G (of G samples each, as "
        "DistributedDataParallel has them) or --batch-norm frozen");
  Shape shape = x.getShape(), channel(shape.size(), 1);
  channel[1] = shape[1];
  Imported centred = n.emit.binary<graph::SubOp>(
      x, n.emit.broadcast(n.emit.reshape(n.operand(3), channel), shape,
                          !x.isConstant()));
  n.result(
      0, scaleAndShift(n, normalize(n, centred, n.operand(4), channel), shape));
  return success();
}

const OpRow rows[] = {
    {"", "BatchNormalization", 9, batchNormalization},
    {"", "Dropout", 7, dropout},
    {"", "Dropout", 12, dropout},
    {"", "RandomNormal", 1, randomNormal<false>},
    {"", "RandomNormalLike", 1, randomNormal<true>},
    {"", "RandomUniform", 1, randomUniform<false>},
    {"", "RandomUniformLike", 1, randomUniform<true>},
    {"", "Bernoulli", 15, bernoulli},
};

} // namespace

ArrayRef<OpRow> getTrainingRows() { return rows; }

} // namespace polyrank::frontends::onnx
