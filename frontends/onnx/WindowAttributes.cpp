// Windows over spatial dims, from the attributes of a node.

#include "frontends/onnx/WindowAttributes.h"

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
    if (failed(countWindows(n.emit, window, x, 2 + i, ceil)))
      return failure();
  }
  return windows;
}

} // namespace polyrank::frontends::onnx
