// Pooling.

#include "frontends/aten/Call.h"
#include "frontends/emit/Windows.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// self with a batch dim, and the removal of that dim.
struct Pooled {
  Imported x;
  bool isSingle = false; // self has no batch

  Imported finish(Emitter &emit, const Imported &result) const {
    if (!isSingle)
      return result;
    Shape shape = result.getShape();
    shape.erase(shape.begin());
    return emit.reshape(result, shape);
  }
};

template <int64_t spatial>
FailureOr<Pooled> getPooled(Call &c) {
  Pooled pooled{c.read("self"), false};
  Shape shape = pooled.x.getShape();
  if (!isFloat(c.typeOf("self")) ||
      (shape.size() != spatial + 1 && shape.size() != spatial + 2))
    return c.fail("pooling over " + Twine(spatial) + " dims of " +
                  c["self"].describe());
  if (shape.size() == spatial + 1) {
    shape.insert(shape.begin(), 1);
    pooled.x = c.emit.reshape(pooled.x, shape);
    pooled.isSingle = true;
  }
  return pooled;
}

template <int64_t spatial>
FailureOr<SmallVector<Window>> getWindows(Call &c, const Imported &x) {
  auto perDim = [&](StringRef name, int64_t otherwise) {
    SmallVector<int64_t> given;
    if (c.has(name))
      given = c.integers(name);
    if (given.empty())
      given.push_back(otherwise);
    if (given.size() == 1)
      given.resize(spatial, given[0]);
    return given;
  };
  auto sizes = perDim("kernel_size", 1), low = perDim("padding", 0),
       dilations = perDim("dilation", 1);
  SmallVector<int64_t> strides =
      c.has("stride") && !c.integers("stride").empty() ? perDim("stride", 1)
                                                       : sizes;
  for (ArrayRef<int64_t> each :
       {ArrayRef(sizes), ArrayRef(low), ArrayRef(dilations), ArrayRef(strides)})
    if (each.size() != spatial)
      return c.fail("a window of " + toString(each) + " over " +
                    Twine(spatial) + " dims");
  bool ceil = c.flag("ceil_mode");
  SmallVector<Window> windows(spatial);
  for (auto [i, window] : llvm::enumerate(windows)) {
    window.size = sizes[i];
    window.stride = strides[i];
    window.dilation = dilations[i];
    window.low = window.high = low[i];
    constexpr int64_t large = int64_t(1) << 31;
    if (window.size < 1 || window.stride < 1 || window.dilation < 1 ||
        window.size > large || window.dilation > large || window.low < 0 ||
        window.low > window.size)
      return c.fail("windows of " + Twine(window.size) + ", stride " +
                    Twine(window.stride) + ", dilation " +
                    Twine(window.dilation) + " and padding " +
                    Twine(window.low));
    if (failed(countWindows(c.emit, window, x.getShape(), 2 + i, ceil)))
      return failure();
  }
  return windows;
}

template <int64_t spatial>
LogicalResult maxPool(Call &c) {
  auto pooled = getPooled<spatial>(c);
  if (failed(pooled))
    return failure();
  auto windows = getWindows<spatial>(c, pooled->x);
  if (failed(windows))
    return failure();
  return c.give(
      pooled->finish(c.emit, frontends::maxPool(c.emit, pooled->x, *windows)),
      c.typeOf("self"));
}

/// From decomposed programs: only the backward uses the indices of the maxima.
template <int64_t spatial>
LogicalResult maxPoolWithIndices(Call &c) {
  return failed(maxPool<spatial>(c)) ? failure() : c.give(Value());
}

template <int64_t spatial>
LogicalResult averagePool(Call &c) {
  auto pooled = getPooled<spatial>(c);
  if (failed(pooled))
    return failure();
  auto windows = getWindows<spatial>(c, pooled->x);
  if (failed(windows))
    return failure();
  std::optional<int64_t> divisor;
  if (c.has("divisor_override"))
    divisor = c.integer("divisor_override");
  if (divisor && *divisor == 0)
    return c.fail("its divisor_override is 0");
  return c.give(
      pooled->finish(c.emit, frontends::averagePool(c.emit, pooled->x, *windows,
                                                    c.flag("count_include_pad"),
                                                    divisor)),
      c.typeOf("self"));
}

/// The mean of each of `to` parts of a dim, part i from floor(i size / to) to
/// ceil((i + 1) size / to): a product with a matrix of weights or, if the parts
/// are equal, a mean over blocks.
Imported averageParts(Call &c, const Imported &x, int64_t dim, int64_t to) {
  Shape shape = x.getShape();
  int64_t size = shape[dim];
  if (size % to == 0) {
    shape[dim] = to;
    shape.insert(shape.begin() + dim + 1, size / to);
    return c.emit.mean(c.emit.reshape(x, shape), {dim + 1});
  }
  graph::Tensor weights(x.getElementType(), {to, size});
  for (int64_t i = 0; i < to; ++i) {
    int64_t start = i * size / to, end = llvm::divideCeil((i + 1) * size, to);
    for (int64_t j = start; j < end; ++j)
      weights.set(i * size + j, 1 / static_cast<double>(end - start));
  }
  Imported product = c.emit.binary<graph::MatmulOp>(
      x, Imported(std::move(weights)), ArrayRef<int64_t>(), ArrayRef<int64_t>(),
      ArrayRef<int64_t>(dim), ArrayRef<int64_t>(int64_t(1)));
  int64_t last = x.getRank() - 1;
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(last));
  order.insert(order.begin() + dim, last);
  return c.emit.transpose(product, order);
}

template <int64_t spatial>
LogicalResult adaptiveAveragePool(Call &c) {
  auto pooled = getPooled<spatial>(c);
  if (failed(pooled))
    return failure();
  Imported x = pooled->x;
  SmallVector<int64_t> sizes = c.integers("output_size");
  Shape shape = x.getShape();
  if (sizes.size() != spatial ||
      llvm::any_of(sizes,
                   [](int64_t size) { return size < 1 || size > maxFolded; }) ||
      llvm::is_contained(shape, 0))
    return c.fail("output_size " + toString(sizes) + " of " + toString(shape));
  if (llvm::all_of(sizes, [](int64_t size) { return size == 1; })) {
    SmallVector<int64_t> dims =
        llvm::to_vector(llvm::seq<int64_t>(2, spatial + 2));
    x = c.emit.keepDims(c.emit.mean(x, dims), shape, dims);
  } else {
    for (int64_t i = 0; i < spatial; ++i) {
      int64_t from = shape[2 + i];
      if (from % sizes[i] && countElements({from, sizes[i]}) > maxFolded)
        return c.fail("output_size " + toString(sizes) + " of " +
                      toString(shape));
      if (sizes[i] != from)
        x = averageParts(c, x, 2 + i, sizes[i]);
    }
  }
  return c.give(pooled->finish(c.emit, x), c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], "
     "int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> "
     "Tensor",
     maxPool<1>},
    {"max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], "
     "int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor",
     maxPool<2>},
    {"max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], "
     "int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor",
     maxPool<3>},
    {"max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] "
     "stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) "
     "-> (Tensor, Tensor)",
     maxPoolWithIndices<2>},
    {"max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] "
     "stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) "
     "-> (Tensor, Tensor)",
     maxPoolWithIndices<3>},
    {"avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], "
     "int[1] padding=[0], bool ceil_mode=False, bool "
     "count_include_pad=True) -> Tensor",
     averagePool<1>},
    {"avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], "
     "int[2] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True, int? divisor_override=None) -> Tensor",
     averagePool<2>},
    {"avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], "
     "int[3] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True, int? divisor_override=None) -> Tensor",
     averagePool<3>},
    {"adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
     adaptiveAveragePool<1>},
    {"adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
     adaptiveAveragePool<2>},
    {"_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
     adaptiveAveragePool<2>},
    {"adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
     adaptiveAveragePool<3>},
    {"_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
     adaptiveAveragePool<3>},
};

} // namespace

ArrayRef<OperatorRow> getPoolingRows() { return rows; }

} // namespace polyrank::frontends::aten
