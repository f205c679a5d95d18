// Resizing of spatial dims.

#include "frontends/aten/Call.h"
#include "frontends/emit/Resize.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

constexpr int64_t maxScaled = int64_t(1) << 40;

/// Takes the sizes of the spatial dims of x [N, C, S..], or the factors by
/// which they are multiplied. Positions are computed with the factor if it is
/// given and used, else with the ratio of the sizes.
LogicalResult resizeTo(Call &c, StringRef input, Sampling sampling) {
  Imported x = c.read(input);
  Shape shape = x.getShape();
  if (shape.size() < 3 || llvm::is_contained(shape, 0))
    return c.fail("resizing of " + toString(shape));
  size_t spatial = shape.size() - 2;
  SmallVector<int64_t> sizes;
  SmallVector<double> factors;
  if (c.has("output_size"))
    sizes = c.integers("output_size");
  if (c.has("scale_factors"))
    for (const Value &each : c["scale_factors"].getElements())
      factors.push_back(each.getNumber());
  // Without a list there is one factor per dim, from the first one on.
  for (StringRef name : {"scales_d", "scales_h", "scales_w", "scales"})
    if (c.has(name))
      factors.push_back(c.number(name));
  if ((!sizes.empty() && sizes.size() != spatial) ||
      (!factors.empty() && factors.size() != spatial) ||
      (sizes.empty() && factors.empty()))
    return c.fail("sizes " + toString(sizes) + " and " + Twine(factors.size()) +
                  " factors for " + toString(shape));
  SmallVector<Resized> resized;
  Shape result = shape;
  for (size_t i = 0; i < spatial; ++i) {
    auto dim = static_cast<int64_t>(2 + i);
    double length = factors.empty()
                        ? static_cast<double>(sizes[i])
                        : factors[i] * static_cast<double>(shape[dim]);
    if (!(length >= 1 && length < static_cast<double>(maxScaled)))
      return c.fail("a dim of " + Twine(shape[dim]) + " to " +
                    std::to_string(length) + " elements");
    int64_t to = sizes.empty() ? static_cast<int64_t>(length) : sizes[i];
    if (to < 1 || to > maxFolded)
      return c.fail("a dim of " + Twine(shape[dim]) + " to " + Twine(to));
    result[dim] = to;
    resized.push_back({dim, shape[dim], to, length});
  }
  if (failed(c.emit.fits(result)))
    return failure();
  return c.give(resize(c.emit, x, resized, sampling), c.typeOf(input));
}

StringRef inputOf(Call &c) { return c.has("input") ? "input" : "self"; }

LogicalResult nearest(Call &c) {
  Sampling sampling;
  sampling.mode = "nearest";
  sampling.coordinates = "asymmetric";
  sampling.nearest = "floor";
  return resizeTo(c, inputOf(c), sampling);
}

LogicalResult nearestExact(Call &c) {
  Sampling sampling;
  sampling.mode = "nearest";
  sampling.coordinates = "half_pixel";
  sampling.nearest = "round_prefer_ceil";
  return resizeTo(c, inputOf(c), sampling);
}

Sampling smooth(Call &c, StringRef mode, bool antialias) {
  Sampling sampling;
  sampling.mode = mode;
  sampling.coordinates =
      c.flag("align_corners") ? "align_corners" : "half_pixel";
  sampling.nearest = "floor";
  sampling.antialias = antialias;
  // Antialias follows Pillow, with its parameter.
  sampling.cubic = antialias ? -0.5 : -0.75;
  sampling.excludesOutside = antialias;
  return sampling;
}

template <bool antialias>
LogicalResult linear(Call &c) {
  return resizeTo(c, inputOf(c), smooth(c, "linear", antialias));
}

template <bool antialias>
LogicalResult cubic(Call &c) {
  return resizeTo(c, inputOf(c), smooth(c, "cubic", antialias));
}

const OperatorRow rows[] = {
    {"upsample_nearest1d(Tensor self, SymInt[1] output_size, float? "
     "scales=None) -> Tensor",
     nearest},
    {"upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, "
     "float[]? scale_factors) -> Tensor",
     nearest},
    {"upsample_nearest2d(Tensor self, SymInt[2] output_size, float? "
     "scales_h=None, float? scales_w=None) -> Tensor",
     nearest},
    {"upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, "
     "float[]? scale_factors) -> Tensor",
     nearest},
    {"upsample_nearest3d(Tensor self, SymInt[3] output_size, float? "
     "scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
     nearest},
    {"upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, "
     "float[]? scale_factors) -> Tensor",
     nearest},
    {"_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, "
     "float? scales=None) -> Tensor",
     nearestExact},
    {"_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, "
     "float[]? scale_factors) -> Tensor",
     nearestExact},
    {"_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, "
     "float? scales_h=None, float? scales_w=None) -> Tensor",
     nearestExact},
    {"_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, "
     "float[]? scale_factors) -> Tensor",
     nearestExact},
    {"_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, "
     "float? scales_d=None, float? scales_h=None, float? scales_w=None) "
     "-> Tensor",
     nearestExact},
    {"_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, "
     "float[]? scale_factors) -> Tensor",
     nearestExact},
    {"upsample_linear1d(Tensor self, SymInt[1] output_size, bool "
     "align_corners, float? scales=None) -> Tensor",
     linear<false>},
    {"upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool "
     "align_corners, float[]? scale_factors) -> Tensor",
     linear<false>},
    {"upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool "
     "align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     linear<false>},
    {"upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool "
     "align_corners, float[]? scale_factors) -> Tensor",
     linear<false>},
    {"upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool "
     "align_corners, float? scales_d=None, float? scales_h=None, float? "
     "scales_w=None) -> Tensor",
     linear<false>},
    {"upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool "
     "align_corners, float[]? scale_factors) -> Tensor",
     linear<false>},
    {"_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool "
     "align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     linear<true>},
    {"_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, "
     "bool align_corners, float[]? scale_factors) -> Tensor",
     linear<true>},
    {"upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool "
     "align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     cubic<false>},
    {"upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool "
     "align_corners, float[]? scale_factors) -> Tensor",
     cubic<false>},
    {"_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool "
     "align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     cubic<true>},
    {"_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, "
     "bool align_corners, float[]? scale_factors) -> Tensor",
     cubic<true>},
};

} // namespace

ArrayRef<OperatorRow> getResizeRows() { return rows; }

} // namespace polyrank::frontends::aten
