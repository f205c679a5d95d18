// Norms that are several ops: over groups of channels, and over the batch.

#include "frontends/emit/Normalization.h"

using namespace mlir;

namespace polyrank::frontends {

using sharding::ReductionKind;

Imported standardize(Emitter &emit, const Imported &x, ArrayRef<int64_t> dims,
                     double epsilon) {
  Shape shape = x.getShape();
  auto mean = [&](const Imported &y) {
    return emit.keepDims(emit.mean(y, dims), shape, dims);
  };
  Imported centred = emit.binaryOver<graph::SubOp>(x, mean(x));
  Imported variance = mean(emit.binary<graph::MulOp>(centred, centred));
  Imported rstd = emit.unary<graph::RsqrtOp>(emit.binaryOver<graph::AddOp>(
      variance, emit.scalar(x.getElementType(), epsilon)));
  return emit.binaryOver<graph::MulOp>(centred, rstd);
}

FailureOr<Imported> normalizeGroups(Emitter &emit, const Imported &x,
                                    int64_t groups, const Imported &scale,
                                    const Imported &bias, bool perGroup,
                                    double epsilon) {
  Shape shape = x.getShape();
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0)
    return emit.fail("normalization of " + toString(shape) + " in " +
                     Twine(groups) + " groups of channels");
  int64_t width = shape[1] / groups;
  Shape grouped = shape, affine(shape.size() + 1, 1);
  grouped[1] = groups;
  grouped.insert(grouped.begin() + 2, width);
  affine[1] = groups;
  affine[2] = perGroup ? 1 : width;
  Imported result = standardize(
      emit, emit.reshape(x, grouped),
      llvm::to_vector(llvm::seq<int64_t>(2, grouped.size())), epsilon);
  for (bool isScale : {true, false}) {
    const Imported &y = isScale ? scale : bias;
    if (!y)
      continue;
    int64_t wanted = perGroup ? groups : shape[1];
    if (y.getShape() != Shape{wanted})
      return emit.fail("its scale or bias " + toString(y.getShape()) +
                       " does not fit " + Twine(wanted));
    Imported fitted = emit.reshape(y, affine);
    result = isScale ? emit.binaryOver<graph::MulOp>(result, fitted)
                     : emit.binaryOver<graph::AddOp>(result, fitted);
  }
  return emit.reshape(result, shape);
}

//===-- batch normalization ----------------------------------------------===//

/// `centred` / sqrt(variance + epsilon); `statistics` is the shape of the
/// variance for broadcasting.
static Imported divideByDeviation(Emitter &emit, const Imported &centred,
                                  const Imported &variance,
                                  const Shape &statistics, double epsilon) {
  Imported rstd = emit.unary<graph::RsqrtOp>(emit.binaryOver<graph::AddOp>(
      variance, emit.scalar(variance.getElementType(), epsilon)));
  return emit.binaryOver<graph::MulOp>(centred, emit.reshape(rstd, statistics));
}

/// normalized * scale + bias per channel (dim 1); both may be empty.
static Imported scaleAndShift(Emitter &emit, Imported normalized,
                              const BatchNormalization &norm, bool isKnown) {
  Shape shape = normalized.getShape();
  auto perChannel = [&](const Imported &y) {
    Shape channel(shape.size(), 1);
    channel[1] = shape[1];
    return emit.broadcast(emit.reshape(y, channel), shape, !isKnown);
  };
  if (norm.scale)
    normalized = emit.binary<graph::MulOp>(normalized, perChannel(norm.scale));
  if (norm.bias)
    normalized = emit.binary<graph::AddOp>(normalized, perChannel(norm.bias));
  return normalized;
}

Imported normalizeByStored(Emitter &emit, const Imported &x,
                           const BatchNormalization &norm) {
  Shape shape = x.getShape(), channel(shape.size(), 1);
  channel[1] = shape[1];
  Imported centred = emit.binary<graph::SubOp>(
      x,
      emit.broadcast(emit.reshape(norm.mean, channel), shape, !x.isConstant()));
  return scaleAndShift(
      emit,
      divideByDeviation(emit, centred, norm.variance, channel, norm.epsilon),
      norm, x.isConstant());
}

FailureOr<BatchStatistics> normalizeByBatch(Emitter &emit, const Imported &x,
                                            const BatchNormalization &norm,
                                            int64_t group) {
  Shape shape = x.getShape();
  if (group == 0)
    group = shape[0];
  if (group < 1 || shape[0] % group != 0)
    return emit.fail("--batch-norm local=" + Twine(group) +
                     " does not divide the batch of " + Twine(shape[0]));
  // [groups, samples, C, ..]: the mean is over all dims except groups and C.
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
    return emit.fail("batch normalization over a single value per channel");
  auto average = [&](const Imported &y, ArrayRef<int64_t> dims, double over) {
    Imported sum = emit.reduce(ReductionKind::Sum, y, dims);
    return emit.binaryOver<graph::MulOp>(
        sum, emit.scalar(sum.getElementType(), 1 / over));
  };
  Imported value = emit.reshape(x, grouped);
  Imported mean = average(value, averaged, count); // [groups, C]
  Imported centred =
      emit.binaryOver<graph::SubOp>(value, emit.reshape(mean, statistics));
  Imported variance =
      average(emit.binary<graph::MulOp>(centred, centred), averaged, count);
  Imported normalized =
      divideByDeviation(emit, centred, variance, statistics, norm.epsilon);
  double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  BatchStatistics result;
  result.normalized = scaleAndShift(emit, emit.reshape(normalized, shape), norm,
                                    x.isConstant());
  result.mean = average(mean, {0}, groups);
  result.variance = average(variance, {0}, groups / unbiased);
  return result;
}

Imported movedTowards(Emitter &emit, const Imported &stored,
                      const Imported &batch, double momentum) {
  auto scaled = [&](const Imported &x, double factor) {
    return emit.binaryOver<graph::MulOp>(
        x, emit.scalar(x.getElementType(), factor));
  };
  return emit.binary<graph::AddOp>(scaled(stored, momentum),
                                   scaled(batch, 1 - momentum));
}

} // namespace polyrank::frontends
