// Windows that slide over spatial dims.

#include "frontends/emit/Windows.h"

using namespace mlir;

namespace polyrank::frontends {

Imported padSpatial(Emitter &emit, const Imported &x, ArrayRef<int64_t> low,
                    ArrayRef<int64_t> high, double value) {
  if (llvm::all_of(low, [](int64_t p) { return p == 0; }) &&
      llvm::all_of(high, [](int64_t p) { return p == 0; }))
    return x;
  SmallVector<int64_t> lows(2, 0), highs(2, 0), interior(x.getRank(), 0);
  lows.append(low.begin(), low.end());
  highs.append(high.begin(), high.end());
  lows.resize(x.getRank(), 0);
  highs.resize(x.getRank(), 0);
  return emit.unary<graph::PadOp>(x, ArrayRef<int64_t>(lows),
                                  ArrayRef<int64_t>(highs),
                                  ArrayRef<int64_t>(interior), value);
}

Imported unfold(Emitter &emit, Imported x, ArrayRef<Window> windows,
                double padding) {
  for (auto [i, window] : llvm::enumerate(windows)) {
    int64_t dim = 2 + i, size = window.size, stride = window.stride;
    int64_t high = window.high + window.excess;
    bool isPadded = window.low || high;
    if (size > 1 && (isPadded || size != stride || window.dilation != 1 ||
                     x.getShape()[dim] != window.count * size)) {
      x = emit.unary<graph::UnfoldOp>(x, dim, size, stride, window.dilation,
                                      window.low, high, padding);
      continue;
    }
    if (size == 1) {
      if (isPadded) {
        SmallVector<int64_t> low(windows.size(), 0), highs(low);
        low[i] = window.low;
        highs[i] = high;
        x = padSpatial(emit, x, low, highs, padding);
      }
      x = emit.slice(x, dim, 0, (window.count - 1) * stride + 1, stride);
      continue;
    }
    // Windows that do not overlap and leave nothing out are blocks of the dim.
    Shape blocks = x.getShape();
    blocks[dim] = window.count;
    blocks.insert(blocks.begin() + dim + 1, size);
    x = emit.reshape(x, blocks);
    SmallVector<int64_t> order = llvm::to_vector(
        llvm::seq<int64_t>(static_cast<int64_t>(blocks.size())));
    order.erase(order.begin() + dim + 1);
    order.push_back(dim + 1);
    x = emit.transpose(x, order);
  }
  return x;
}

} // namespace polyrank::frontends
