// im2col and col2im: windows of an image as columns of a matrix, and the
// inverse.

#include "frontends/aten/Call.h"
#include "frontends/emit/Windows.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// The two windows of the call, with `count` not yet set.
FailureOr<SmallVector<Window>> windowsOf(Call &c) {
  SmallVector<int64_t> sizes = c.integers("kernel_size"),
                       dilations = c.integers("dilation"),
                       paddings = c.integers("padding"),
                       strides = c.integers("stride");
  SmallVector<Window> windows(2);
  for (auto [name, given] : {std::pair(StringRef("kernel_size"), &sizes),
                             std::pair(StringRef("dilation"), &dilations),
                             std::pair(StringRef("padding"), &paddings),
                             std::pair(StringRef("stride"), &strides)}) {
    if (given->size() == 1)
      given->push_back(given->front());
    if (given->size() != 2 || llvm::any_of(*given, [&](int64_t value) {
          return value < (name == "padding" ? 0 : 1) || value > INT32_MAX;
        }))
      return c.fail("its " + name + " is " + toString(*given));
  }
  for (size_t i = 0; i < 2; ++i) {
    windows[i].size = sizes[i];
    windows[i].dilation = dilations[i];
    windows[i].stride = strides[i];
    windows[i].low = windows[i].high = paddings[i];
  }
  return windows;
}

/// self, with a batch dim of size 1 added if it has none; fails unless it then
/// has `rank` dims.
FailureOr<Imported> batched(Call &c, int64_t rank) {
  Imported x = c.read("self");
  Shape shape = x.getShape();
  if (static_cast<int64_t>(shape.size()) == rank - 1)
    shape.insert(shape.begin(), 1);
  if (static_cast<int64_t>(shape.size()) != rank)
    return c.fail("windows of " + c["self"].describe());
  return c.emit.reshape(x, shape);
}

/// Gives `result`, without its batch dim if self (which has `rank` dims with a
/// batch) has none.
LogicalResult giveLike(Call &c, const Imported &result, int64_t rank) {
  Shape shape = result.getShape();
  if (c.tensor("self")->getRank() == rank - 1)
    shape.erase(shape.begin());
  return c.give(c.emit.reshape(result, shape), c.typeOf("self"));
}

/// [N, C, H, W] to [N, C * kh * kw, windows].
LogicalResult imageToColumns(Call &c) {
  auto x = batched(c, 4);
  auto windows = windowsOf(c);
  if (failed(x) || failed(windows))
    return failure();
  Shape shape = x->getShape();
  Imported columns = *x;
  for (auto [i, window] : llvm::enumerate(*windows)) {
    int64_t dim = 2 + static_cast<int64_t>(i);
    if (failed(countWindows(c.emit, window, shape, dim, /*ceil=*/false)))
      return failure();
    columns = c.emit.unary<graph::UnfoldOp>(columns, dim, window.size,
                                            window.stride, window.dilation,
                                            window.low, window.high, 0.0);
  }
  const Window &rows = (*windows)[0], &across = (*windows)[1];
  // [N, C, oh, ow, kh, kw]
  columns = c.emit.transpose(columns, {0, 1, 4, 5, 2, 3});
  return giveLike(
      c,
      c.emit.reshape(columns, {shape[0], shape[1] * rows.size * across.size,
                               rows.count * across.count}),
      4);
}

/// [N, C * kh * kw, windows] to [N, C, H, W]; elements of overlapping windows
/// are added.
LogicalResult columnsToImage(Call &c) {
  auto x = batched(c, 3);
  auto windows = windowsOf(c);
  if (failed(x) || failed(windows))
    return failure();
  SmallVector<int64_t> size = c.integers("output_size");
  if (size.size() == 1)
    size.push_back(size[0]);
  if (size.size() != 2 || failed(c.emit.fits(size)))
    return c.fail("its output_size is " + toString(size));
  Shape shape = x->getShape(), image = {shape[0], 1, size[0], size[1]};
  for (auto [i, window] : llvm::enumerate(*windows))
    if (failed(countWindows(c.emit, window, image, 2 + static_cast<int64_t>(i),
                            /*ceil=*/false)))
      return failure();
  const Window &rows = (*windows)[0], &across = (*windows)[1];
  int64_t elements = rows.size * across.size;
  if (shape[1] % elements != 0 || shape[2] != rows.count * across.count)
    return c.fail(toString(shape) + " is not made of " +
                  Twine(rows.count * across.count) + " windows of " +
                  Twine(elements) + " elements, which an image of " +
                  toString(size) + " has");
  Imported result =
      c.emit.reshape(*x, {shape[0], shape[1] / elements, rows.size, across.size,
                          rows.count, across.count});
  // The last dim is folded: first the columns, then the rows.
  result = c.emit.transpose(result, {0, 1, 4, 5, 2, 3});
  result = c.emit.unary<graph::FoldOp>(
      result, int64_t(3), size[1], across.stride, across.dilation, across.low);
  result = c.emit.unary<graph::FoldOp>(result, int64_t(2), size[0], rows.stride,
                                       rows.dilation, rows.low);
  return giveLike(c, result, 3);
}

const OperatorRow rows[] = {
    {"im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] "
     "padding, int[2] stride) -> Tensor",
     imageToColumns},
    {"col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] "
     "dilation, int[2] padding, int[2] stride) -> Tensor",
     columnsToImage},
};

} // namespace

ArrayRef<OperatorRow> getWindowRows() { return rows; }

} // namespace polyrank::frontends::aten
