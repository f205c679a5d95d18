// Imports Resize.

#include <cmath>

#include "frontends/emit/Resize.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

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
          n.getInt("antialias", 0) != 0,
          isOld,
          n.getFloat("extrapolation_value", 0)};
}

/// The sizes or scales of `dims`; exactly one of the two is given.
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
    // One scale for all dims, with which no dim becomes larger (smaller) than
    // requested.
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

/// Operand 1 holds the start of the range of each dim, then the ends.
LogicalResult findParts(NodeImporter &n, MutableArrayRef<Resized> dims) {
  if (failed(n.needKnown(1, "part (`roi`)")))
    return failure();
  const graph::Tensor &part = *n.operand(1).constant;
  auto count = static_cast<int64_t>(dims.size());
  if (part.size() != 2 * count)
    return n.fail("its part (`roi`) has " + Twine(part.size()) +
                  " numbers for the starts and ends of " + Twine(count) +
                  " dims");
  for (int64_t i = 0; i < count; ++i) {
    dims[i].start = part.at(i);
    dims[i].end = part.at(count + i);
    if (!std::isfinite(dims[i].start) || !std::isfinite(dims[i].end))
      return n.fail("its part (`roi`) of dim " + Twine(dims[i].dim) +
                    " is from " + std::to_string(dims[i].start) + " to " +
                    std::to_string(dims[i].end));
  }
  return success();
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
    // The dims are in the order of the sizes.
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
  Sampling sampling = getSampling(n);
  if (sampling.coordinates == "tf_crop_and_resize" &&
      failed(findParts(n, *sizes)))
    return failure();
  auto resized = frontends::resize(n.emit, std::move(x), *sizes, sampling);
  if (failed(resized))
    return failure();
  n.result(0, *resized);
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
