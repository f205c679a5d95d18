// Import of Resize. Each resized dim is sampled on its own: an element of the
// result is a weighted sum of elements of the operand, so a dim is multiplied
// with a matrix of weights that is known when the model is compiled; where each
// element is a copy of one (`nearest`) the dim is repeated, cut or gathered.

#include <cmath>

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// How one dim is resized.
struct Resized {
  int64_t dim, from, to;
  double length; // before it is rounded to `to`

  double getScale() const { return length / static_cast<double>(from); }
};

/// Matrices of weights, and lists of sources, of more elements are refused.
constexpr int64_t maxWeights = int64_t(1) << 24;

/// What the attributes say of all dims.
struct Sampling {
  StringRef mode, coordinates, nearest;
  double cubic;
  bool excludesOutside, antialias;
};

Sampling getSampling(NodeImporter &n) {
  // Before version 11 (and in Upsample) positions are i / scale, rounded down.
  bool isOld = n.since < 11;
  return {n.getString("mode", "nearest"),
          isOld ? StringRef("asymmetric")
                : n.getString("coordinate_transformation_mode", "half_pixel"),
          isOld ? StringRef("floor")
                : n.getString("nearest_mode", "round_prefer_floor"),
          n.getFloat("cubic_coeff_a", -0.75),
          n.getInt("exclude_outside", 0) != 0,
          n.getInt("antialias", 0) != 0};
}

/// The position in the operand of element `i` of the result; NaN where the mode
/// is not known.
double positionOf(int64_t i, const Resized &r, StringRef mode) {
  auto from = static_cast<double>(r.from), to = r.length;
  auto at = static_cast<double>(i);
  // Products before quotients: where a position is whole it stays so.
  if (mode == "asymmetric")
    return at * from / to;
  // Between the elements that there are, as PyTorch and onnxruntime have it.
  if (mode == "align_corners")
    return r.to <= 1 ? 0 : at * (from - 1) / static_cast<double>(r.to - 1);
  if (mode == "half_pixel" || (mode == "pytorch_half_pixel" && r.to > 1))
    return (at + 0.5) * from / to - 0.5;
  if (mode == "pytorch_half_pixel")
    return 0;
  if (mode == "tf_half_pixel_for_nn")
    return (at + 0.5) * from / to;
  if (mode == "half_pixel_symmetric")
    return from / 2 * (1 - static_cast<double>(r.to) / to) +
           (at + 0.5) * from / to - 0.5;
  return NAN;
}

/// The element nearest to position `exact`; -1 where the mode is not known. A
/// scale in the file is a float32, so the quotient behind a position is known no
/// better: 3 / 0.6 is 5.
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

/// weights[i, j]: how much of element j of the operand is in element i of the
/// result. Elements outside are those at the border, or left out. Antialias
/// widens the samples where the dim shrinks.
graph::Tensor findWeights(NodeImporter &n, const Resized &r,
                          const Sampling &sampling) {
  graph::Tensor weights(n.operand(0).getElementType(), {r.to, r.from});
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

/// Each element of the result is the one of `x` that `sources` names.
Imported copyElements(NodeImporter &n, const Imported &x, int64_t dim,
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
    return n.emit.reshape(
        n.emit.broadcast(n.emit.reshape(x, apart), repeated, false), shape);
  }
  if (stride > 0 && all([&](int64_t i) { return sources[0] + i * stride; }))
    return n.emit.slice(x, dim, sources[0], sources[to - 1] + 1, stride);
  return n.emit.binary<graph::GatherOp>(x, n.emit.integers(sources), dim);
}

LogicalResult resizeDim(NodeImporter &n, Imported &x, const Resized &r,
                        const Sampling &sampling) {
  if (std::isnan(positionOf(0, r, sampling.coordinates)))
    return n.fail("coordinate_transformation_mode `" + sampling.coordinates +
                  "`");
  if (countElements({r.to, r.from}) > maxWeights)
    return n.fail("Resize of a dim of " + Twine(r.from) + " to " + Twine(r.to));
  if (sampling.mode == "nearest") {
    SmallVector<int64_t> sources;
    for (int64_t i = 0; i < r.to; ++i)
      sources.push_back(nearestTo(positionOf(i, r, sampling.coordinates),
                                  r.from, sampling.nearest));
    if (sources[0] < 0)
      return n.fail("nearest_mode `" + sampling.nearest + "`");
    // PyTorch rounds down, onnxruntime up.
    for (int64_t i = 0; n.since < 11 && i < r.to; ++i)
      if (r.to < r.from &&
          sources[i] != nearestTo(positionOf(i, r, sampling.coordinates),
                                  r.from, "ceil"))
        return n.fail("before opset 11 it is not said which elements stay of " +
                      Twine(r.from) + " that become " + Twine(r.to));
    x = copyElements(n, x, r.dim, sources);
    return success();
  }
  if (sampling.mode != "linear" && sampling.mode != "cubic")
    return n.fail("Resize with mode `" + sampling.mode + "`");
  if (!isa<FloatType>(x.getElementType()))
    return n.fail("Resize of integers with mode `" + sampling.mode +
                  "`; convert them to floats (x.float())");
  Imported product = n.emit.binary<graph::MatmulOp>(
      x, Imported(findWeights(n, r, sampling)), ArrayRef<int64_t>(),
      ArrayRef<int64_t>(), ArrayRef<int64_t>(r.dim),
      ArrayRef<int64_t>(int64_t(1)));
  // The resized dim is the last one now.
  int64_t last = x.getRank() - 1;
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(last));
  order.insert(order.begin() + r.dim, last);
  x = n.emit.transpose(product, order);
  return success();
}

/// The sizes or scales of `dims`, of which one is given.
FailureOr<SmallVector<Resized>> findSizes(NodeImporter &n, const Shape &shape,
                                          ArrayRef<int64_t> dims) {
  bool isNew = n.since >= 11;
  size_t scalesAt = isNew ? 2 : 1;
  auto isGiven = [&](size_t i) {
    return n.has(i) && countElements(n.operand(i).getShape()) != 0;
  };
  SmallVector<Resized> result;
  auto checkCount = [&](size_t count, StringRef what) -> LogicalResult {
    if (count == dims.size())
      return success();
    return n.fail("it has " + Twine(count) + " " + what + " for " +
                  Twine(dims.size()) + " dims");
  };
  if (isNew && isGiven(3)) {
    auto sizes = n.integers(3, "sizes");
    if (failed(sizes) || failed(checkCount(sizes->size(), "sizes")))
      return failure();
    // One scale for all, by which no dim becomes larger (smaller) than asked.
    StringRef policy = n.getString("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch" && policy != "not_larger" &&
        policy != "not_smaller")
      return n.fail("keep_aspect_ratio_policy `" + policy + "`");
    double common = policy == "not_larger" ? INFINITY : 0;
    for (auto [dim, size] : llvm::zip_equal(dims, *sizes)) {
      result.push_back({dim, shape[dim], size, static_cast<double>(size)});
      double scale = result.back().getScale();
      common = policy == "not_larger" ? std::min(common, scale)
                                      : std::max(common, scale);
    }
    if (policy != "stretch")
      for (Resized &each : result) {
        each.length = common * static_cast<double>(each.from);
        if (each.length > static_cast<double>(maxElements))
          return n.fail("sizes " + toString(*sizes) + " of " + toString(shape));
        each.to = static_cast<int64_t>(std::floor(each.length + 0.5));
      }
    return result;
  }
  SmallVector<double> scales;
  if (const Attribute *given = n.attribute("scales");
      given && !isGiven(scalesAt)) {
    scales.assign(given->floats.begin(), given->floats.end());
  } else {
    if (!isGiven(scalesAt))
      return n.fail("neither its sizes nor its scales are given");
    if (failed(n.needKnown(scalesAt, "scales")))
      return failure();
    const graph::Tensor &tensor = *n.operand(scalesAt).constant;
    for (int64_t i = 0; i < tensor.size(); ++i)
      scales.push_back(tensor.at(i));
  }
  if (failed(checkCount(scales.size(), "scales")))
    return failure();
  for (auto [dim, scale] : llvm::zip_equal(dims, scales)) {
    double size = scale * static_cast<double>(shape[dim]);
    if (!(scale > 0 && size <= static_cast<double>(maxElements)))
      return n.fail("scale " + std::to_string(scale) + " of a dim of " +
                    Twine(shape[dim]));
    result.push_back({dim, shape[dim], static_cast<int64_t>(size), size});
  }
  return result;
}

LogicalResult resize(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Imported x = n.operand(0);
  Shape shape = x.getShape();
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(x.getRank()));
  auto given = n.integersFrom("axes", SIZE_MAX);
  if (failed(given))
    return failure();
  if (*given) {
    if (failed(n.axes(**given, x.getRank())))
      return failure();
    // In the order of the sizes.
    dims.clear();
    for (int64_t each : **given)
      dims.push_back(*n.axis(each, x.getRank()));
  }
  if (llvm::is_contained(shape, 0))
    return n.fail("Resize of " + toString(shape));
  auto sizes = findSizes(n, shape, dims);
  if (failed(sizes))
    return failure();
  Shape result = shape;
  for (const Resized &each : *sizes) {
    if (each.to < 1)
      return n.fail("Resize of a dim of " + Twine(each.from) + " to " +
                    Twine(each.to));
    result[each.dim] = each.to;
  }
  if (failed(n.fits(result)))
    return failure();
  // Dims that shrink first: less is left for the others.
  llvm::sort(*sizes, [](const Resized &a, const Resized &b) {
    return a.getScale() < b.getScale();
  });
  Sampling sampling = getSampling(n);
  for (const Resized &each : *sizes)
    if (each.from != each.to || each.length != static_cast<double>(each.from))
      if (failed(resizeDim(n, x, each, sampling)))
        return failure();
  n.result(0, x);
  return success();
}

const OpRow rows[] = {
    {"", "Upsample", 7, resize},
    {"", "Resize", 10, resize},
    {"", "Resize", 11, resize},
};

} // namespace

ArrayRef<OpRow> getResizeRows() { return rows; }

} // namespace polyrank::frontends::onnx
