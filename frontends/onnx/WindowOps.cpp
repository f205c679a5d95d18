// Import of what slides a window over spatial dims: convolution and pooling.
// Both are one unfold per spatial dim; the windows are then multiplied with the
// filters, or reduced.

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using shard::ReductionKind;

/// How the window lies over one spatial dim.
struct Window {
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t low = 0, high = 0; // padding that the model asks for
  int64_t excess = 0;        // further padding that ceil_mode needs
  int64_t count = 0;         // windows, the size of the result's dim
};

/// Attribute `name` with one integer per spatial dim, or `otherwise`.
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

/// The windows over the dims of `x` behind the first two.
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

/// [N, C, S..] to [N, C, O.., K..] where O counts windows, and K are the sizes
/// of those windows that have more than one element.
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

  Imported unfolded = unfold(n, x, *windows, 0);
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
  if (n.has(2)) {
    Shape channel(out.size(), 1);
    channel[1] = weight[0];
    if (n.operand(2).getShape() != Shape{weight[0]})
      return n.fail("its bias " + toString(n.operand(2).getShape()) +
                    " does not fit " + Twine(weight[0]) + " filters");
    result = n.emit.binaryOver<graph::AddOp>(
        result, n.emit.reshape(n.operand(2), channel));
  }
  n.result(0, result);
  return success();
}

/// Dims of the window elements in what `unfold` returns.
SmallVector<int64_t> elementDims(const Imported &unfolded, size_t spatial) {
  return llvm::to_vector(llvm::seq<int64_t>(static_cast<int64_t>(2 + spatial),
                                            unfolded.getRank()));
}

/// What pooling has in common: a float operand with spatial dims, and windows.
FailureOr<SmallVector<Window>> poolingWindows(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  if (x.getRank() < 3 || !isa<FloatType>(x.getElementType()))
    return n.fail("pooling of " + toString(x.getShape()) +
                  (isa<FloatType>(x.getElementType()) ? "" : " integers"));
  if (!n.attribute("kernel_shape"))
    return n.fail("pooling without a kernel_shape");
  auto sizes = perDim(n, "kernel_shape", x.getRank() - 2, 1);
  if (failed(sizes))
    return failure();
  return findWindows(n, x.getShape(), *sizes);
}

LogicalResult maxPool(NodeImporter &n) {
  if (n.wants(1))
    return n.fail("MaxPool that also returns indices");
  auto windows = poolingWindows(n);
  if (failed(windows))
    return failure();
  Imported unfolded = unfold(n, n.operand(0), *windows,
                             -std::numeric_limits<double>::infinity());
  n.result(0, n.emit.reduce(ReductionKind::Max, unfolded,
                            elementDims(unfolded, windows->size()),
                            /*first=*/true));
  return success();
}

LogicalResult averagePool(NodeImporter &n) {
  auto windows = poolingWindows(n);
  if (failed(windows))
    return failure();
  const Imported &x = n.operand(0);
  auto sumOf = [&](const Imported &y, ArrayRef<Window> over) {
    Imported unfolded = unfold(n, y, over, 0);
    return n.emit.reduce(ReductionKind::Sum, unfolded,
                         elementDims(unfolded, over.size()));
  };
  // The number of elements that each window averages: those of the operand,
  // and of the padding that the model asks for where it counts.
  SmallVector<int64_t> shape(x.getShape());
  shape[0] = shape[1] = 1;
  Imported ones =
      graph::Tensor::splat(RankedTensorType::get(shape, x.getElementType()), 1);
  SmallVector<Window> rest(*windows);
  if (n.getInt("count_include_pad", 0)) {
    SmallVector<int64_t> low, high;
    for (Window &window : rest) {
      low.push_back(std::exchange(window.low, 0));
      high.push_back(std::exchange(window.high, 0));
    }
    ones = padSpatial(n, ones, low, high, 1);
  }
  Imported counts = sumOf(ones, rest);
  n.result(0, n.emit.binaryOver<graph::DivOp>(sumOf(x, *windows), counts));
  return success();
}

/// Pooling over all of the spatial dims, which stay with size 1.
template <ReductionKind kind>
LogicalResult globalPool(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  if (x.getRank() < 3 || !isa<FloatType>(x.getElementType()))
    return n.fail("global pooling of " + toString(x.getShape()));
  Shape shape = x.getShape(), kept = {shape[0], shape[1]};
  int64_t count = 1;
  for (int64_t size : ArrayRef<int64_t>(shape).drop_front(2))
    count *= size;
  kept.append(x.getRank() - 2, 1);
  Imported pooled = n.emit.reduce(
      kind, x, llvm::to_vector(llvm::seq<int64_t>(2, x.getRank())));
  if (kind == ReductionKind::Sum)
    pooled = n.emit.binaryOver<graph::DivOp>(
        pooled, n.emit.scalar(x.getElementType(), count));
  n.result(0, n.emit.reshape(pooled, kept));
  return success();
}

const OpRow rows[] = {
    {"", "Conv", 1, conv},
    {"", "MaxPool", 8, maxPool},
    {"", "AveragePool", 7, averagePool},
    {"", "GlobalAveragePool", 1, globalPool<ReductionKind::Sum>},
    {"", "GlobalMaxPool", 1, globalPool<ReductionKind::Max>},
};

} // namespace

ArrayRef<OpRow> getWindowRows() { return rows; }

} // namespace polyrank::frontends::onnx
