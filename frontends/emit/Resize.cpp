// Resizing, one dim at a time.

#include "frontends/emit/Resize.h"

#include <cmath>

using namespace mlir;

namespace polyrank::frontends {
namespace {

/// Matrices of weights and lists of sources with more elements are refused.
constexpr int64_t maxWeights = int64_t(1) << 24;

/// The position in the operand of element `i` of the result; NaN for an unknown
/// mode.
double positionOf(int64_t i, const Resized &r, StringRef mode) {
  auto from = static_cast<double>(r.from), to = r.length;
  auto at = static_cast<double>(i);
  // Multiplying before dividing keeps whole positions exact.
  if (mode == "asymmetric")
    return at * from / to;
  // A position between existing elements, as in PyTorch and onnxruntime.
  if (mode == "align_corners")
    return r.to <= 1 ? 0 : at * (from - 1) / static_cast<double>(r.to - 1);
  if (mode == "half_pixel" || (mode == "pytorch_half_pixel" && r.to > 1))
    return (at + 0.5) * from / to - 0.5;
  if (mode == "pytorch_half_pixel")
    return 0;
  if (mode == "tf_half_pixel_for_nn")
    return (at + 0.5) * from / to;
  if (mode == "tf_crop_and_resize")
    return (from - 1) * (r.to > 1 ? r.start + at * (r.end - r.start) /
                                                  static_cast<double>(r.to - 1)
                                  : (r.start + r.end) / 2);
  if (mode == "half_pixel_symmetric")
    return from / 2 * (1 - static_cast<double>(r.to) / to) +
           (at + 0.5) * from / to - 0.5;
  return NAN;
}

/// The element nearest to position `exact`; -1 for an unknown mode. A scale in
/// the file is a float32, so positions are only compared in that precision: 3 /
/// 0.6 is 5.
int64_t nearestTo(double exact, int64_t size, StringRef mode) {
  double rounded, x = static_cast<float>(exact + 0.5) - 0.5;
  if (mode == "round_prefer_floor")
    rounded = std::ceil(x - 0.5);
  else if (mode == "round_prefer_ceil")
    rounded = std::floor(x + 0.5);
  else if (mode == "floor")
    rounded = std::floor(x);
  else if (mode == "ceil")
    rounded = std::ceil(x);
  else
    return -1;
  return static_cast<int64_t>(
      std::clamp(rounded, 0.0, static_cast<double>(size - 1)));
}

/// The weight of an element at distance `t`: a triangle, or the cubic
/// convolution of Keys (1981) with parameter a.
double weightAt(double t, const Sampling &sampling) {
  t = std::fabs(t);
  if (sampling.mode == "linear")
    return std::max(0.0, 1 - t);
  double a = sampling.cubic;
  if (t <= 1)
    return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/// weights[i, j]: the weight of element j of the operand in element i of the
/// result. Elements outside count as those at the border, or are left out. With
/// antialias the samples are wider when the dim shrinks.
graph::Tensor findWeights(Type type, const Resized &r,
                          const Sampling &sampling) {
  graph::Tensor weights(type, {r.to, r.from});
  double narrow = sampling.antialias ? std::min(1.0, r.getScale()) : 1;
  double reach = (sampling.mode == "linear" ? 1 : 2) / narrow;
  for (int64_t i = 0; i < r.to; ++i) {
    double x = positionOf(i, r, sampling.coordinates), sum = 0;
    auto first = static_cast<int64_t>(std::ceil(x - reach)),
         last = static_cast<int64_t>(std::floor(x + reach));
    SmallVector<double> row(r.from, 0);
    for (int64_t j = first; j <= last; ++j) {
      if (sampling.excludesOutside && (j < 0 || j >= r.from))
        continue;
      double weight = weightAt((static_cast<double>(j) - x) * narrow, sampling);
      row[std::clamp<int64_t>(j, 0, r.from - 1)] += weight;
      sum += weight;
    }
    for (int64_t j = 0; j < r.from; ++j)
      weights.set(i * r.from + j, sum == 0 ? 0 : row[j] / sum);
  }
  return weights;
}

/// Makes each element of the result a copy of the element of `x` that `sources`
/// names.
Imported copyElements(Emitter &emit, const Imported &x, int64_t dim,
                      ArrayRef<int64_t> sources) {
  Shape shape = x.getShape();
  auto from = shape[dim], to = static_cast<int64_t>(sources.size());
  auto all = [&](auto expected) {
    for (int64_t i = 0; i < to; ++i)
      if (sources[i] != expected(i))
        return false;
    return true;
  };
  int64_t times = to / from, stride = from / to;
  if (times * from == to && all([&](int64_t i) { return i / times; })) {
    Shape apart = shape, repeated = shape;
    apart.insert(apart.begin() + dim + 1, 1);
    repeated.insert(repeated.begin() + dim + 1, times);
    shape[dim] = to;
    return emit.reshape(emit.broadcast(emit.reshape(x, apart), repeated, false),
                        shape);
  }
  if (stride > 0 && all([&](int64_t i) { return sources[0] + i * stride; }))
    return emit.slice(x, dim, sources[0], sources[to - 1] + 1, stride);
  return emit.binary<graph::GatherOp>(x, emit.integers(sources), dim);
}

/// `x`, with the extrapolation value for those elements of the resized dim
/// whose position is outside of the operand.
Imported extrapolate(Emitter &emit, const Imported &x, const Resized &r,
                     const Sampling &sampling) {
  graph::Tensor inside(emit.getBuilder().getI1Type(), {r.to});
  bool areAll = true;
  for (int64_t i = 0; i < r.to; ++i) {
    double position = positionOf(i, r, sampling.coordinates);
    bool isInside =
        position >= 0 && position <= static_cast<double>(r.from - 1);
    inside.set(i, isInside);
    areAll &= isInside;
  }
  if (areAll)
    return x;
  Shape spread(x.getRank(), 1);
  spread[r.dim] = r.to;
  auto repeated = [&](const Imported &y) {
    return emit.broadcast(y, x.getShape(), !x.isConstant());
  };
  return emit.select(
      repeated(emit.reshape(Imported(inside), spread)), x,
      repeated(emit.scalar(x.getElementType(), sampling.extrapolation)));
}

LogicalResult resizeDim(Emitter &emit, Imported &x, const Resized &r,
                        const Sampling &sampling) {
  if (std::isnan(positionOf(0, r, sampling.coordinates)))
    return emit.fail("coordinate_transformation_mode `" + sampling.coordinates +
                     "`");
  if (countElements({r.to, r.from}) > maxWeights)
    return emit.fail("Resize of a dim of " + Twine(r.from) + " to " +
                     Twine(r.to));
  if (sampling.mode == "nearest") {
    SmallVector<int64_t> sources;
    for (int64_t i = 0; i < r.to; ++i)
      sources.push_back(nearestTo(positionOf(i, r, sampling.coordinates),
                                  r.from, sampling.nearest));
    if (sources[0] < 0)
      return emit.fail("nearest_mode `" + sampling.nearest + "`");
    // PyTorch rounds down, and onnxruntime up.
    for (int64_t i = 0; sampling.isOld && i < r.to; ++i)
      if (r.to < r.from &&
          sources[i] !=
              nearestTo(positionOf(i, r, sampling.coordinates), r.from, "ceil"))
        return emit.fail(
            "before opset 11 it is not said which elements stay of " +
            Twine(r.from) + " that become " + Twine(r.to));
    x = copyElements(emit, x, r.dim, sources);
    return success();
  }
  if (sampling.mode != "linear" && sampling.mode != "cubic")
    return emit.fail("Resize with mode `" + sampling.mode + "`");
  if (!isa<FloatType>(x.getElementType()))
    return emit.fail("Resize of integers with mode `" + sampling.mode +
                     "`; convert them to floats (x.float())");
  Imported product = emit.binary<graph::MatmulOp>(
      x, Imported(findWeights(x.getElementType(), r, sampling)),
      ArrayRef<int64_t>(), ArrayRef<int64_t>(), ArrayRef<int64_t>(r.dim),
      ArrayRef<int64_t>(int64_t(1)));
  // The resized dim is now the last one.
  int64_t last = x.getRank() - 1;
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(last));
  order.insert(order.begin() + r.dim, last);
  x = emit.transpose(product, order);
  return success();
}

} // namespace

FailureOr<Imported> resize(Emitter &emit, Imported x,
                           SmallVector<Resized> resized,
                           const Sampling &sampling) {
  // Dims that shrink come first, which leaves less work for the others.
  llvm::sort(resized, [](const Resized &a, const Resized &b) {
    return a.getScale() < b.getScale();
  });
  bool isPart = sampling.coordinates == "tf_crop_and_resize";
  for (const Resized &each : resized) {
    if (each.from == each.to && each.length == static_cast<double>(each.from) &&
        (!isPart || (each.start == 0 && each.end == 1)))
      continue;
    if (failed(resizeDim(emit, x, each, sampling)))
      return failure();
    if (isPart)
      x = extrapolate(emit, x, each, sampling);
  }
  return x;
}

} // namespace polyrank::frontends
