// Windows that slide over spatial dims.

#include "frontends/onnx/Windows.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

FailureOr<SmallVector<int64_t>> perDim(NodeImporter &n, StringRef name,
                                       size_t count, int64_t otherwise) {
  auto given = n.integersFrom(name, SIZE_MAX);
  if (failed(given))
    return failure();
  if (!*given)
    return SmallVector<int64_t>(count, otherwise);
  if ((*given)->size() != count)
    return n.fail("its " + name + " " + toString(**given) + " do not fit " +
                  Twine(count) + " spatial dims");
  return **given;
}

FailureOr<SmallVector<Window>> findWindows(NodeImporter &n, const Shape &x,
                                           ArrayRef<int64_t> sizes) {
  size_t count = x.size() - 2;
  auto strides = perDim(n, "strides", count, 1);
  auto dilations = perDim(n, "dilations", count, 1);
  auto pads = perDim(n, "pads", 2 * count, 0);
  if (failed(strides) || failed(dilations) || failed(pads))
    return failure();
  if (sizes.size() != count)
    return n.fail("its kernel_shape " + toString(sizes) + " does not fit " +
                  Twine(count) + " spatial dims");
  StringRef automatic = n.getString("auto_pad", "NOTSET");
  bool ceil = n.getInt("ceil_mode", 0);
  SmallVector<Window> windows(count);
  for (auto [i, window] : llvm::enumerate(windows)) {
    int64_t dim = x[2 + i];
    window.size = sizes[i];
    window.stride = (*strides)[i];
    window.dilation = (*dilations)[i];
    constexpr int64_t large = int64_t(1) << 31;
    if (window.size < 1 || window.stride < 1 || window.dilation < 1 ||
        window.size > large || window.dilation > large)
      return n.fail("its windows have size " + Twine(window.size) +
                    ", stride " + Twine(window.stride) + " and dilation " +
                    Twine(window.dilation));
    int64_t reach = (window.size - 1) * window.dilation + 1;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      int64_t wanted = llvm::divideCeil(dim, window.stride);
      int64_t padding =
          std::max<int64_t>(0, (wanted - 1) * window.stride + reach - dim);
      window.low =
          automatic == "SAME_UPPER" ? padding / 2 : padding - padding / 2;
      window.high = padding - window.low;
    } else if (automatic == "NOTSET") {
      window.low = (*pads)[i];
      window.high = (*pads)[count + i];
    } else if (automatic != "VALID") {
      return n.fail("auto_pad `" + automatic + "`");
    }
    if (window.low < 0 || window.high < 0 || window.low > maxElements ||
        window.high > maxElements)
      return n.fail("its pads " + toString(*pads) + " are out of range");
    int64_t room = window.low + dim + window.high - reach;
    if (room < 0 && ceil && -room < window.stride) {
      // One window, which reaches behind everything; what is there counts for
      // nothing, so it ends with the padded dim.
      window.size = (room + reach - 1) / window.dilation + 1;
      window.count = 1;
      continue;
    }
    if (room < 0)
      return n.fail("windows that reach over " + Twine(reach) +
                    " elements do not fit dim " + Twine(2 + i) + " of " +
                    toString(x) + ", padded to " +
                    Twine(window.low + dim + window.high));
    window.count = room / window.stride + 1;
    // A window that ceil_mode adds starts inside of the operand or before it.
    if (ceil && room % window.stride != 0 &&
        window.count * window.stride < window.low + dim) {
      window.excess = (window.stride - room % window.stride);
      ++window.count;
    }
  }
  return windows;
}

Imported padSpatial(NodeImporter &n, const Imported &x, ArrayRef<int64_t> low,
                    ArrayRef<int64_t> high, double value) {
  if (llvm::all_of(low, [](int64_t p) { return p == 0; }) &&
      llvm::all_of(high, [](int64_t p) { return p == 0; }))
    return x;
  SmallVector<int64_t> lows(2, 0), highs(2, 0), interior(x.getRank(), 0);
  lows.append(low.begin(), low.end());
  highs.append(high.begin(), high.end());
  lows.resize(x.getRank(), 0);
  highs.resize(x.getRank(), 0);
  return n.emit.unary<graph::PadOp>(x, ArrayRef<int64_t>(lows),
                                    ArrayRef<int64_t>(highs),
                                    ArrayRef<int64_t>(interior), value);
}

Imported unfold(NodeImporter &n, Imported x, ArrayRef<Window> windows,
                double padding) {
  for (auto [i, window] : llvm::enumerate(windows)) {
    int64_t dim = 2 + i, size = window.size, stride = window.stride;
    int64_t high = window.high + window.excess;
    bool isPadded = window.low || high;
    if (size > 1 && (isPadded || size != stride || window.dilation != 1 ||
                     x.getShape()[dim] != window.count * size)) {
      x = n.emit.unary<graph::UnfoldOp>(x, dim, size, stride, window.dilation,
                                        window.low, high, padding);
      continue;
    }
    if (size == 1) {
      if (isPadded) {
        SmallVector<int64_t> low(windows.size(), 0), highs(low);
        low[i] = window.low;
        highs[i] = high;
        x = padSpatial(n, x, low, highs, padding);
      }
      x = n.emit.slice(x, dim, 0, (window.count - 1) * stride + 1, stride);
      continue;
    }
    // Windows that do not overlap and leave nothing out are blocks of the dim.
    Shape blocks = x.getShape();
    blocks[dim] = window.count;
    blocks.insert(blocks.begin() + dim + 1, size);
    x = n.emit.reshape(x, blocks);
    SmallVector<int64_t> order = llvm::to_vector(
        llvm::seq<int64_t>(static_cast<int64_t>(blocks.size())));
    order.erase(order.begin() + dim + 1);
    order.push_back(dim + 1);
    x = n.emit.transpose(x, order);
  }
  return x;
}

} // namespace polyrank::frontends::onnx
