// Convolutions: one unfold per spatial dim, and a product of the windows with
// the filters; transposed ones multiply first and fold.

#pragma once

#include "frontends/emit/Windows.h"

namespace polyrank::frontends {

/// x [N, C, S..] and filters [M, C / groups, K..] give [N, M, O..]: a product
/// that contracts channels and window elements, with groups as batch dims. A
/// window per spatial dim, of the filters' size.
Imported convolve(Emitter &emit, const Imported &x, const Imported &filters,
                  llvm::ArrayRef<Window> windows, int64_t groups);

/// x [N, C, S..] and filters [C, M / groups, K..] give [N, M, sizes..], the
/// transpose of a convolution: a product that contracts channels gives the
/// elements of all windows, which are then added over each other. Windows lie
/// over the result; `count` is S.
Imported convolveTransposed(Emitter &emit, const Imported &x,
                            const Imported &filters,
                            llvm::ArrayRef<Window> windows, int64_t groups,
                            llvm::ArrayRef<int64_t> sizes);

} // namespace polyrank::frontends
