// Elements at positions that are computed, between those that there are.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Of which elements a point between elements consists.
enum class GridMode { Linear, Nearest, Cubic };
/// What lies outside of the operand: zeros, the outermost element, or the
/// operand again, turned round.
enum class GridPadding { Zeros, Border, Reflection };

struct GridSample {
  GridMode mode = GridMode::Linear;
  GridPadding padding = GridPadding::Zeros;
  /// Whether -1 and 1 are the centres of the outermost elements, or their
  /// outer edges.
  bool alignCorners = false;
};

/// x [N, C, D..] at the points of grid [N, P.., r], r being the number of dims
/// D: [N, C, P..]. The last dim of the grid has the coordinates of a point, the
/// last dim's first, from -1 to 1. Gradients, of the grid as well, are those of
/// PyTorch. Fails where the shapes do not fit.
mlir::FailureOr<Imported> gridSample(Emitter &emit, const Imported &x,
                                     const Imported &grid,
                                     const GridSample &how);

/// The grid [N, P.., r] of the points P.. = `spatial`, each coordinate being
/// the product of a row of theta [N, r, r + 1] with the point and a one.
Imported affineGrid(Emitter &emit, const Imported &theta,
                    llvm::ArrayRef<int64_t> spatial, bool alignCorners);

} // namespace polyrank::frontends
