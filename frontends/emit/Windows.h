// Windows that slide over the spatial dims of an operand [N, C, S..], shared by
// convolution and pooling.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// A window over one spatial dim.
struct Window {
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t low = 0, high = 0; // padding that the model asks for
  int64_t excess = 0;        // further padding that ceil_mode needs
  int64_t count = 0;         // the number of windows, which is the size of the
                             // result's dim
};

/// Pads each spatial dim of `x` with `low` and `high` elements of `value`.
Imported padSpatial(Emitter &emit, const Imported &x,
                    llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                    double value);

/// Unfolds [N, C, S..] to [N, C, O.., K..], where O is the number of windows
/// and K the sizes of those windows that have more than one element.
Imported unfold(Emitter &emit, Imported x, llvm::ArrayRef<Window> windows,
                double padding);

/// Sets `window.count` and, with PyTorch's `ceil_mode`, `window.excess`, for
/// dim `at` of an operand of shape `x`; the other fields are given. (A window
/// that ceil_mode adds starts inside the operand or its padding before it.)
/// Fails if no window fits.
llvm::LogicalResult countWindows(Emitter &emit, Window &window,
                                 llvm::ArrayRef<int64_t> x, int64_t at,
                                 bool ceil);

/// The largest element of each window.
Imported maxPool(Emitter &emit, const Imported &x,
                 llvm::ArrayRef<Window> windows);

/// The sum of each window divided by `divisor`, or else by the number of its
/// elements; padding that the model asks for counts if `countsPadding`.
Imported averagePool(Emitter &emit, const Imported &x,
                     llvm::ArrayRef<Window> windows, bool countsPadding,
                     std::optional<int64_t> divisor = std::nullopt);

} // namespace polyrank::frontends
