// Windows that slide over the spatial dims of an operand [N, C, S..]: what
// convolution and pooling have in common.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// How the window lies over one spatial dim.
struct Window {
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t low = 0, high = 0; // padding that the model asks for
  int64_t excess = 0;        // further padding that ceil_mode needs
  int64_t count = 0;         // windows, the size of the result's dim
};

/// `x` between `low` and `high` further elements of `value`, per spatial dim.
Imported padSpatial(Emitter &emit, const Imported &x,
                    llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                    double value);

/// [N, C, S..] to [N, C, O.., K..] where O counts windows, and K are the sizes
/// of those windows that have more than one element.
Imported unfold(Emitter &emit, Imported x, llvm::ArrayRef<Window> windows,
                double padding);

/// Sets `window.count`, and `window.excess` with PyTorch's `ceil_mode` (a
/// window that it adds starts inside of the operand or before it), over dim
/// `at` of an operand of shape `x`; the other fields are given. Fails where
/// none fits.
llvm::LogicalResult countWindows(Emitter &emit, Window &window,
                                 llvm::ArrayRef<int64_t> x, int64_t at,
                                 bool ceil);

/// The largest element of each window.
Imported maxPool(Emitter &emit, const Imported &x,
                 llvm::ArrayRef<Window> windows);

/// The sum of each window divided by `divisor`, or by the number of its
/// elements: without padding, or with that which the model asks for where it
/// counts.
Imported averagePool(Emitter &emit, const Imported &x,
                     llvm::ArrayRef<Window> windows, bool countsPadding,
                     std::optional<int64_t> divisor = std::nullopt);

} // namespace polyrank::frontends
