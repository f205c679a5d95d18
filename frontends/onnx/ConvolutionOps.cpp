// Imports convolutions.

#include "frontends/emit/Convolution.h"
#include "frontends/onnx/WindowAttributes.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// Sets the result of the node: `x` [N, M, O..] plus the bias of each channel,
/// operand 2.
LogicalResult finish(NodeImporter &n, const Imported &x) {
  if (!n.has(2)) {
    n.result(0, x);
    return success();
  }
  int64_t channels = x.getShape()[1];
  if (n.operand(2).getShape() != Shape{channels})
    return n.fail("its bias " + toString(n.operand(2).getShape()) +
                  " does not fit " + Twine(channels) + " filters");
  Shape channel(x.getRank(), 1);
  channel[1] = channels;
  n.result(0, n.emit.binaryOver<graph::AddOp>(
                  x, n.emit.reshape(n.operand(2), channel)));
  return success();
}

/// x [N, C, S..] and filters [M, C / groups, K..] give [N, M, O..]: a product
/// that contracts channels and window elements, with groups as batch dims.
LogicalResult conv(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0), &filters = n.operand(1);
  Shape in = x.getShape(), weight = filters.getShape();
  int64_t groups = n.getInt("group", 1);
  if (in.size() < 3 || weight.size() != in.size() || groups < 1 ||
      in[1] != weight[1] * groups || weight[0] % groups != 0)
    return n.fail("Conv of " + toString(in) + " with filters " +
                  toString(weight) + " in " + Twine(groups) + " groups");
  auto sizes = perDim(n, "kernel_shape", in.size() - 2, 0);
  if (failed(sizes))
    return failure();
  if (!n.attribute("kernel_shape"))
    sizes->assign(weight.begin() + 2, weight.end());
  if (!llvm::equal(*sizes, ArrayRef<int64_t>(weight).drop_front(2)))
    return n.fail("its kernel_shape " + toString(*sizes) +
                  " is not that of its filters " + toString(weight));
  auto windows = findWindows(n, in, *sizes);
  if (failed(windows))
    return failure();

  return finish(n, convolve(n.emit, x, filters, *windows, groups));
}

/// The windows of a transposed convolution over the spatial dims of the result;
/// `sizes` receives the sizes of these.
FailureOr<SmallVector<Window>> findTransposedWindows(NodeImporter &n,
                                                     const Shape &in,
                                                     ArrayRef<int64_t> kernel,
                                                     Shape &sizes) {
  size_t count = kernel.size();
  auto strides = perDim(n, "strides", count, 1);
  auto dilations = perDim(n, "dilations", count, 1);
  auto pads = perDim(n, "pads", 2 * count, 0);
  auto further = perDim(n, "output_padding", count, 0);
  auto wanted = perDim(n, "output_shape", count, 0);
  if (failed(strides) || failed(dilations) || failed(pads) || failed(further) ||
      failed(wanted))
    return failure();
  StringRef automatic = n.getString("auto_pad", "NOTSET");
  bool isSame = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!isSame && automatic != "NOTSET" && automatic != "VALID")
    return n.fail("auto_pad `" + automatic + "`");
  SmallVector<Window> windows(count);
  for (auto [i, window] : llvm::enumerate(windows)) {
    window.size = kernel[i];
    window.stride = (*strides)[i];
    window.dilation = (*dilations)[i];
    window.count = in[2 + i];
    int64_t more = (*further)[i];
    constexpr int64_t large = int64_t(1) << 20;
    auto isSize = [&](int64_t each) { return each >= 1 && each <= large; };
    if (!isSize(window.size) || !isSize(window.stride) ||
        !isSize(window.dilation) || more < 0 || more > large)
      return n.fail("its windows have size " + Twine(window.size) +
                    ", stride " + Twine(window.stride) + ", dilation " +
                    Twine(window.dilation) + " and output_padding " +
                    Twine(more));
    if (window.count < 1 || window.count > maxElements >> 20)
      return n.fail("ConvTranspose of " + toString(in));
    int64_t reach = (window.size - 1) * window.dilation + 1;
    int64_t whole = (window.count - 1) * window.stride + reach + more;
    if (n.attribute("output_shape") || isSame) {
      int64_t size = n.attribute("output_shape") ? (*wanted)[i]
                                                 : window.count * window.stride;
      if (size < 1 || size > maxElements)
        return n.fail("its output_shape " + toString(*wanted));
      // Elements that no window reaches stay zero.
      int64_t padding = std::max<int64_t>(0, whole - size);
      whole = std::max(whole, size);
      window.low =
          automatic == "SAME_UPPER" ? padding / 2 : padding - padding / 2;
      window.high = padding - window.low;
    } else if (automatic == "NOTSET") {
      window.low = (*pads)[i];
      window.high = (*pads)[count + i];
    }
    if (window.low < 0 || window.high < 0 || window.low >= whole ||
        window.high >= whole - window.low)
      return n.fail("its pads " + toString(*pads) + " leave nothing of " +
                    Twine(whole) + " elements");
    sizes.push_back(whole - window.low - window.high);
  }
  return windows;
}

/// The transpose of a convolution: x [N, C, S..] and filters [C, M / groups,
/// K..] give [N, M, O..]. A product that contracts channels gives the elements
/// of all windows, and overlapping windows are then summed.
LogicalResult convTranspose(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0), &filters = n.operand(1);
  Shape in = x.getShape(), weight = filters.getShape();
  int64_t groups = n.getInt("group", 1);
  if (in.size() < 3 || weight.size() != in.size() || groups < 1 ||
      in[1] != weight[0] || in[1] % groups != 0)
    return n.fail("ConvTranspose of " + toString(in) + " with filters " +
                  toString(weight) + " in " + Twine(groups) + " groups");
  ArrayRef<int64_t> kernel = ArrayRef<int64_t>(weight).drop_front(2);
  auto sizes = perDim(n, "kernel_shape", kernel.size(), 0);
  if (failed(sizes))
    return failure();
  if (n.attribute("kernel_shape") && !llvm::equal(*sizes, kernel))
    return n.fail("its kernel_shape " + toString(*sizes) +
                  " is not that of its filters " + toString(weight));
  Shape out = {in[0], weight[1] * groups};
  auto windows = findTransposedWindows(n, in, kernel, out);
  if (failed(windows) || failed(n.fits(out)))
    return failure();

  return finish(n, convolveTransposed(n.emit, x, filters, *windows, groups,
                                      ArrayRef<int64_t>(out).drop_front(2)));
}

const OpRow rows[] = {
    {"", "Conv", 1, conv},
    {"", "ConvTranspose", 1, convTranspose},
};

} // namespace

ArrayRef<OpRow> getConvolutionRows() { return rows; }

} // namespace polyrank::frontends::onnx
