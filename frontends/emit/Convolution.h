// Convolutions as one unfold per spatial dim and a product of the windows with
// the filters; transposed convolutions multiply first and fold the result.

#pragma once

#include "frontends/emit/Windows.h"

namespace polyrank::frontends {

/// x [N, C, S..] and filters [M, C / groups, K..] give [N, M, O..]: a product
/// that contracts channels and window elements, with groups as batch dims.
/// There is a window per spatial dim, of the size of the filters.
Imported convolve(Emitter &emit, const Imported &x, const Imported &filters,
                  llvm::ArrayRef<Window> windows, int64_t groups);

/// The transpose of a convolution: x [N, C, S..] and filters [C, M / groups,
/// K..] give [N, M, sizes..]. A product that contracts channels gives the
/// elements of all windows, and overlapping windows are then summed. The
/// windows lie over the result; their `count` is S.
Imported convolveTransposed(Emitter &emit, const Imported &x,
                            const Imported &filters,
                            llvm::ArrayRef<Window> windows, int64_t groups,
                            llvm::ArrayRef<int64_t> sizes);

} // namespace polyrank::frontends
