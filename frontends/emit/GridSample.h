// Samples a tensor at computed positions, with interpolation.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// How a point between elements is interpolated.
enum class GridMode { Linear, Nearest, Cubic };
/// The values outside of the operand: zeros, the outermost element, or the
/// mirrored operand.
enum class GridPadding { Zeros, Border, Reflection };

struct GridSample {
  GridMode mode = GridMode::Linear;
  GridPadding padding = GridPadding::Zeros;
  /// True if -1 and 1 are the centres of the outermost elements, false if they
  /// are their outer edges.
  bool alignCorners = false;
};

/// Samples x [N, C, D..] at the points of grid [N, P.., r], where r is the
/// number of dims D; the result is [N, C, P..]. The last dim of the grid holds
/// the coordinates of a point, from -1 to 1, that of the last dim of x first.
/// Gradients, also of the grid, are those of PyTorch. Fails if the shapes do
/// not fit.
mlir::FailureOr<Imported> gridSample(Emitter &emit, const Imported &x,
                                     const Imported &grid,
                                     const GridSample &how);

/// The grid [N, P.., r] for the points P.. = `spatial`: each coordinate is the
/// product of a row of theta [N, r, r + 1] with (point, 1).
Imported affineGrid(Emitter &emit, const Imported &theta,
                    llvm::ArrayRef<int64_t> spatial, bool alignCorners);

} // namespace polyrank::frontends
