// Imports ops that behave differently in training: dropout, random numbers and
// batch normalization.

#include "frontends/emit/Normalization.h"
#include "frontends/emit/Random.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using sharding::ReductionKind;

//===-- dropout ----------------------------------------------------------===//

/// The identity, unless the model was exported in training mode or the user
/// sets another rate.
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
  // The dropout of attention is exported in inference form, whatever the mode
  // of the model.
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
  // Nothing that PyTorch writes uses the mask of a dropout in training.
  if (!drops && n.wants(1))
    n.result(1,
             n.emit.broadcast(
                 n.emit.scalar(
                     IntegerType::get(n.emit.getBuilder().getContext(), 1), 1),
                 x.getShape(), false));
  return success();
}

//===-- random numbers ---------------------------------------------------===//

/// Fails with --dropout: stochastic depth, and PyTorch's in-place dropout, draw
/// numbers and compare them. Numbers come from the plan's seed; a seed in the
/// file is that of its exporter.
LogicalResult mayDraw(NodeImporter &n, const Shape &shape) {
  if (failed(n.fits(shape)))
    return failure();
  if (n.options.dropout)
    return n.fail("--dropout does not reach random numbers that the model "
                  "draws itself; export it after model.eval(), or with "
                  "Dropout(inplace=False)");
  return success();
}

FailureOr<Imported> drawUniform(NodeImporter &n, const Shape &shape) {
  if (failed(mayDraw(n, shape)))
    return failure();
  return n.emit.uniform(shape);
}

/// The shape of operand 0 if `like`, else the shape in an attribute.
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
  if (failed(mayDraw(n, *shape)))
    return failure();
  Imported result = standardNormal(n.emit, *shape);
  auto scalar = [&](double value) {
    return n.emit.scalar(result.getElementType(), value);
  };
  double mean = n.getFloat("mean", 0), scale = n.getFloat("scale", 1);
  if (scale != 1)
    result = n.emit.binaryOver<graph::MulOp>(result, scalar(scale));
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

/// 1 with the probabilities in operand 0, else 0.
LogicalResult bernoulli(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  auto drawn = drawUniform(n, x.getShape());
  if (failed(drawn))
    return failure();
  Type type = x.getElementType();
  if (n.attribute("dtype")) {
    type = computedType(n.emit.getBuilder().getContext(),
                        typeOfNumber(n.getInt("dtype", 0)));
    if (!type)
      return n.fail("its dtype " + Twine(n.getInt("dtype", 0)));
  }
  n.result(0, n.emit.convert(n.emit.binary<graph::CompareOp>(
                                 *drawn, x, graph::Comparison::LT),
                             type));
  return success();
}

//===-- batch normalization ----------------------------------------------===//

/// Returns true if the model computes `statistic` itself, as PyTorch's exporter
/// writes a normalization that stores none (track_running_stats=False,
/// standardized weights). No option is needed then.
bool isComputed(const Imported &statistic) {
  Value value = statistic.value;
  while (value && isa_and_present<graph::ReshapeOp, graph::ConvertOp>(
                      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value && value.getDefiningOp() &&
         !isa<graph::ConstantOp>(value.getDefiningOp());
}

/// Updates the stored statistic, operand `i`, by that of the batch; empty if
/// the model computes it itself, so that there is no state.
FailureOr<Imported> follow(NodeImporter &n, size_t i, const Imported &batch) {
  const Imported &stored = n.operand(i);
  if (isComputed(stored) || n.operand(0).isConstant())
    return Imported();
  if (!isParameter(stored))
    return n.fail("its running statistics are not stored in the file as a "
                  "buffer of the model, so they cannot follow the batch");
  // Starts from the value that an earlier use of the same layer left.
  Imported next = movedTowards(n.emit, n.emit.getUpdated(stored.value), batch,
                               n.getFloat("momentum", 0.9));
  n.emit.update(stored.value, next.value);
  return next;
}

LogicalResult batchNormalization(NodeImporter &n) {
  if (failed(n.need(5)))
    return failure();
  const Imported &x = n.operand(0);
  if (x.getRank() < 2)
    return n.fail("BatchNormalization of " + toString(x.getShape()));
  if (n.getInt("spatial", 1) == 0)
    return n.fail("statistics of each element of a sample (spatial=0), which "
                  "opset 9 took away; export with opset_version=20");
  bool saysTraining = n.getInt("training_mode", 0) || n.wants(1);
  bool hasStatistics =
      !saysTraining && isComputed(n.operand(3)) && isComputed(n.operand(4));
  BatchNormalization norm{n.operand(1), n.operand(2), n.operand(3),
                          n.operand(4), n.getFloat("epsilon", 1e-5)};
  if (!hasStatistics &&
      (n.options.batchNorm == BatchNorm::Batch ||
       (saysTraining && n.options.batchNorm == BatchNorm::Unset))) {
    auto result = normalizeByBatch(n.emit, x, norm, n.options.batchNormGroup);
    if (failed(result))
      return failure();
    n.result(0, result->normalized);
    for (size_t i : {3, 4}) {
      auto next = follow(n, i, i == 3 ? result->mean : result->variance);
      if (failed(next))
        return failure();
      if (*next)
        n.result(i - 2, *next);
    }
    return success();
  }
  if (!hasStatistics && n.options.training &&
      n.options.batchNorm == BatchNorm::Unset)
    return n.fail(
        "batch normalization is in its inference form, which PyTorch's "
        "exporter writes in any mode; say what training does: --batch-norm "
        "batch (statistics of the global batch, as one process has them), "
        "--batch-norm local=G (of G samples each, as "
        "DistributedDataParallel has them) or --batch-norm frozen");
  n.result(0, normalizeByStored(n.emit, x, norm));
  return success();
}

const OpRow rows[] = {
    {"", "BatchNormalization", 7, batchNormalization},
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
