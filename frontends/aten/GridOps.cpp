// Grids of points, and sampling at them: spatial transformers.

#include "frontends/aten/Call.h"
#include "frontends/emit/GridSample.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// The modes are numbers of at::native::GridSamplerInterpolation and
/// GridSamplerPadding.
LogicalResult gridSampler(Call &c) {
  int64_t mode = c.integer("interpolation_mode"),
          padding = c.integer("padding_mode");
  if (mode < 0 || mode > 2)
    return c.fail("its interpolation_mode " + Twine(mode));
  if (padding < 0 || padding > 2)
    return c.fail("its padding_mode " + Twine(padding));
  if (!isFloat(c.typeOf("input")) || !isFloat(c.typeOf("grid")))
    return c.fail(c["input"].describe() + " at " + c["grid"].describe());
  constexpr GridMode modes[] = {GridMode::Linear, GridMode::Nearest,
                                GridMode::Cubic};
  constexpr GridPadding paddings[] = {GridPadding::Zeros, GridPadding::Border,
                                      GridPadding::Reflection};
  return c.give(
      gridSample(c.emit, c.read("input"), c.read("grid"),
                 {modes[mode], paddings[padding], c.flag("align_corners")}),
      c.typeOf("input"));
}

/// The arguments are theta [N, r, r + 1] and the size [N, C, D..] of the tensor
/// to be sampled.
LogicalResult affineGridGenerator(Call &c) {
  Imported theta = c.read("theta");
  SmallVector<int64_t> size = c.integers("size");
  auto rank = static_cast<int64_t>(size.size()) - 2;
  if (rank < 1 || theta.getShape() != Shape{size[0], rank, rank + 1})
    return c.fail("theta of " + toString(theta.getShape()) + " for a size of " +
                  toString(size));
  if (failed(c.emit.fits(size)))
    return failure();
  return c.give(affineGrid(c.emit, theta, ArrayRef(size).drop_front(2),
                           c.flag("align_corners")),
                c.typeOf("theta"));
}

const OperatorRow rows[] = {
    {"grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int "
     "padding_mode, bool align_corners) -> Tensor",
     gridSampler},
    {"grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int "
     "padding_mode, bool align_corners) -> Tensor",
     gridSampler},
    {"grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int "
     "padding_mode, bool align_corners) -> Tensor",
     gridSampler},
    {"affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) "
     "-> Tensor",
     affineGridGenerator},
};

} // namespace

ArrayRef<OperatorRow> getGridRows() { return rows; }

} // namespace polyrank::frontends::aten
