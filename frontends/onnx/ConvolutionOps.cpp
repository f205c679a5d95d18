// Import of convolutions: one unfold per spatial dim, and a product of the
// windows with the filters; transposed ones multiply first and fold.

#include "frontends/onnx/WindowAttributes.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// The node's result: `x` [N, M, O..] with the bias of each channel, operand 2.
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

  Imported unfolded = unfold(n.emit, x, *windows, 0);
  int64_t spatial = windows->size(), channels = weight[1];
  // [N, groups, C / groups, O.., K..] and [groups, M / groups, C / groups, K..]
  // without groups where there is one.
  bool isGrouped = groups > 1;
  SmallVector<int64_t> kernel;
  for (const Window &window : *windows)
    if (window.size > 1)
      kernel.push_back(window.size);
  Shape left = unfolded.getShape(), right = {weight[0] / groups, channels};
  right.append(kernel);
  if (isGrouped) {
    left[1] = channels;
    left.insert(left.begin() + 1, groups);
    right.insert(right.begin(), groups);
  }
  Imported lhs = n.emit.reshape(unfolded, left),
           rhs = n.emit.reshape(filters, right);
  // Windows as rows: [(groups), N, O.., C / groups, K..].
  int64_t first = isGrouped ? 1 : 0; // dims before C, beside N
  SmallVector<int64_t> order;
  if (isGrouped)
    order.push_back(1);
  order.push_back(0);
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(2 + first + i);
  order.push_back(1 + first);
  for (int64_t i = 0, count = kernel.size(); i < count; ++i)
    order.push_back(2 + first + spatial + i);
  lhs = n.emit.transpose(lhs, order);
  SmallVector<int64_t> batch, lhsContract, rhsContract;
  if (isGrouped)
    batch.push_back(0);
  for (int64_t i = 0, count = 1 + kernel.size(); i < count; ++i) {
    lhsContract.push_back(first + 1 + spatial + i);
    rhsContract.push_back(first + 1 + i);
  }
  Imported product = n.emit.binary<graph::MatmulOp>(
      lhs, rhs, ArrayRef<int64_t>(batch), ArrayRef<int64_t>(batch),
      ArrayRef<int64_t>(lhsContract), ArrayRef<int64_t>(rhsContract));
  // [(groups), N, O.., M / groups] to [N, M, O..].
  SmallVector<int64_t> back = {first};
  if (isGrouped)
    back.push_back(0);
  back.push_back(first + 1 + spatial);
  for (int64_t i = 0; i < spatial; ++i)
    back.push_back(first + 1 + i);
  Shape out = {in[0], weight[0]};
  for (const Window &window : *windows)
    out.push_back(window.count);
  Imported result = n.emit.reshape(n.emit.transpose(product, back), out);
  return finish(n, result);
}

/// The windows of a transposed convolution over the result's spatial dims, of
/// which `sizes` receives the sizes.
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
      // What no window reaches stays zero.
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

/// [.., O, .., k] to [.., s, ..]: `windows` elements along `dim` added to each
/// other. Windows side by side are blocks of the dim.
Imported fold(NodeImporter &n, const Imported &x, int64_t dim,
              const Window &window, int64_t size) {
  Shape shape = x.getShape();
  int64_t last = x.getRank() - 1;
  if (window.low == 0 && window.stride == window.size &&
      (window.dilation == 1 || window.size == 1) &&
      size == window.count * window.size) {
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(last));
    order.insert(order.begin() + dim + 1, last);
    shape.pop_back();
    shape[dim] = size;
    return n.emit.reshape(n.emit.transpose(x, order), shape);
  }
  return n.emit.unary<graph::FoldOp>(x, dim, size, window.stride,
                                     window.dilation, window.low);
}

/// x [N, C, S..] and filters [C, M / groups, K..] give [N, M, O..], the
/// transpose of a convolution: a product that contracts channels gives the
/// elements of all windows, which are then added over each other.
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

  // [N, (groups), C / groups, S..] and [(groups), C / groups, M / groups, K..]
  int64_t spatial = kernel.size(), first = groups > 1 ? 1 : 0;
  Shape left = in, right = weight;
  if (groups > 1) {
    left[1] = right[0] = in[1] / groups;
    left.insert(left.begin() + 1, groups);
    right.insert(right.begin(), groups);
  }
  SmallVector<int64_t> leftBatch, rightBatch;
  if (groups > 1) {
    leftBatch.push_back(1);
    rightBatch.push_back(0);
  }
  Imported product = n.emit.binary<graph::MatmulOp>(
      n.emit.reshape(x, left), n.emit.reshape(filters, right),
      ArrayRef<int64_t>(leftBatch), ArrayRef<int64_t>(rightBatch),
      ArrayRef<int64_t>(1 + first), ArrayRef<int64_t>(first));
  // [(groups), N, S.., M / groups, K..] to [N, M, S.., K..].
  SmallVector<int64_t> order = {first};
  if (groups > 1)
    order.push_back(0);
  order.push_back(first + 1 + spatial);
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(first + 1 + i);
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(first + 2 + spatial + i);
  Shape merged = in;
  merged[1] = out[1];
  merged.append(kernel.begin(), kernel.end());
  Imported result = n.emit.reshape(n.emit.transpose(product, order), merged);
  for (int64_t i = spatial - 1; i >= 0; --i)
    result = fold(n, result, 2 + i, (*windows)[i], out[2 + i]);
  return finish(n, result);
}

const OpRow rows[] = {
    {"", "Conv", 1, conv},
    {"", "ConvTranspose", 1, convTranspose},
};

} // namespace

ArrayRef<OpRow> getConvolutionRows() { return rows; }

} // namespace polyrank::frontends::onnx
