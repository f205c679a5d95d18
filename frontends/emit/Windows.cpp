// Windows that slide over spatial dims.

#include "frontends/emit/Windows.h"

#include <limits>

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
    // Windows that neither overlap nor leave gaps are blocks of the dim.
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

LogicalResult countWindows(Emitter &emit, Window &window, ArrayRef<int64_t> x,
                           int64_t at, bool ceil) {
  int64_t dim = x[at], reach = (window.size - 1) * window.dilation + 1;
  int64_t room = window.low + dim + window.high - reach;
  if (room < 0 && ceil && -room < window.stride) {
    // A single window that reaches beyond the padded dim. Elements beyond it do
    // not count, so the window ends with it.
    window.size = (room + reach - 1) / window.dilation + 1;
    window.count = 1;
    return success();
  }
  if (room < 0)
    return emit.fail("windows that reach over " + Twine(reach) +
                     " elements do not fit dim " + Twine(at) + " of " +
                     toString(x) + ", padded to " +
                     Twine(window.low + dim + window.high));
  window.count = room / window.stride + 1;
  // A window that ceil_mode adds starts inside the operand or its padding
  // before it.
  if (ceil && room % window.stride != 0 &&
      window.count * window.stride < window.low + dim) {
    window.excess = (window.stride - room % window.stride);
    ++window.count;
  }
  return success();
}

/// The dims of the window elements in the result of `unfold`.
static SmallVector<int64_t> elementDims(const Imported &unfolded,
                                        size_t spatial) {
  return llvm::to_vector(llvm::seq<int64_t>(static_cast<int64_t>(2 + spatial),
                                            unfolded.getRank()));
}

Imported maxPool(Emitter &emit, const Imported &x, ArrayRef<Window> windows) {
  Imported unfolded =
      unfold(emit, x, windows, -std::numeric_limits<double>::infinity());
  return emit.reduce(sharding::ReductionKind::Max, unfolded,
                     elementDims(unfolded, windows.size()), /*first=*/true);
}

Imported averagePool(Emitter &emit, const Imported &x, ArrayRef<Window> windows,
                     bool countsPadding, std::optional<int64_t> divisor) {
  auto sumOf = [&](const Imported &y, ArrayRef<Window> over) {
    Imported unfolded = unfold(emit, y, over, 0);
    return emit.reduce(sharding::ReductionKind::Sum, unfolded,
                       elementDims(unfolded, over.size()));
  };
  if (divisor)
    return emit.binaryOver<graph::DivOp>(
        sumOf(x, windows),
        emit.scalar(x.getElementType(), static_cast<double>(*divisor)));
  // The number of elements that each window averages: those of the operand and,
  // if it counts, those of the padding that the model asks for.
  SmallVector<int64_t> shape(x.getShape());
  shape[0] = shape[1] = 1;
  Imported ones =
      graph::Tensor::splat(RankedTensorType::get(shape, x.getElementType()), 1);
  SmallVector<Window> rest(windows);
  if (countsPadding) {
    SmallVector<int64_t> low, high;
    for (Window &window : rest) {
      low.push_back(std::exchange(window.low, 0));
      high.push_back(std::exchange(window.high, 0));
    }
    ones = padSpatial(emit, ones, low, high, 1);
  }
  return emit.binaryOver<graph::DivOp>(sumOf(x, windows), sumOf(ones, rest));
}

} // namespace polyrank::frontends
