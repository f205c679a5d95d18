// Convolutions.

#include "frontends/aten/Call.h"
#include "frontends/emit/Convolution.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// The parameters of a convolution, one number per spatial dim.
struct Settings {
  SmallVector<int64_t> stride, low, high, dilation, outputPadding;
  int64_t groups = 1;
  bool isTransposed = false;
};

/// A single number stands for all spatial dims.
SmallVector<int64_t> perDim(Call &c, StringRef name, size_t count) {
  SmallVector<int64_t> given = c.integers(name);
  if (given.size() == 1)
    given.resize(count, given[0]);
  return given;
}

LogicalResult convolution(Call &c, const Settings &settings) {
  Imported x = c.read("input"), weight = c.read("weight");
  ElementType type = c.typeOf("input");
  if (!isFloat(type) || !isFloat(c.typeOf("weight")))
    return c.fail("a convolution of integers; convert them to float32");
  Shape filters = weight.getShape(), in = x.getShape();
  // The input has no batch.
  bool isSingle = in.size() + 1 == filters.size();
  if (isSingle) {
    in.insert(in.begin(), 1);
    x = c.emit.reshape(x, in);
  }
  int64_t groups = settings.groups;
  size_t spatial = filters.size() < 3 ? 0 : filters.size() - 2;
  int64_t channels = filters.empty() ? 0 : filters[0];
  if (spatial == 0 || in.size() != filters.size() || groups < 1 ||
      (settings.isTransposed
           ? in[1] != filters[0] || in[1] % groups != 0
           : in[1] != filters[1] * groups || filters[0] % groups != 0))
    return c.fail(toString(in) + " with filters " + toString(filters) + " in " +
                  Twine(groups) + " groups");
  for (const auto *each :
       {&settings.stride, &settings.low, &settings.high, &settings.dilation})
    if (each->size() != spatial)
      return c.fail(toString(*each) + " for " + Twine(spatial) +
                    " spatial dims");
  SmallVector<Window> windows(spatial);
  Shape sizes;
  for (auto [i, window] : llvm::enumerate(windows)) {
    window.size = filters[2 + i];
    window.stride = settings.stride[i];
    window.dilation = settings.dilation[i];
    window.low = settings.low[i];
    window.high = settings.high[i];
    constexpr int64_t large = int64_t(1) << 20;
    auto isSize = [&](int64_t each) { return each >= 1 && each <= large; };
    if (!isSize(window.size) || !isSize(window.stride) ||
        !isSize(window.dilation) || window.low < 0 || window.high < 0 ||
        window.low > maxElements || window.high > maxElements)
      return c.fail("windows of " + Twine(window.size) + ", stride " +
                    Twine(window.stride) + ", dilation " +
                    Twine(window.dilation) + " and padding " +
                    Twine(window.low));
    if (!settings.isTransposed) {
      if (failed(countWindows(c.emit, window, in, 2 + i, /*ceil=*/false)))
        return failure();
      continue;
    }
    if (settings.outputPadding.size() != spatial)
      return c.fail("output_padding " + toString(settings.outputPadding) +
                    " for " + Twine(spatial) + " spatial dims");
    window.count = in[2 + i];
    if (window.count < 1 || window.count > maxElements >> 20)
      return c.fail("a transposed convolution of " + toString(in));
    // The windows cover `whole` elements, from which the padding is cut off.
    int64_t whole = (window.count - 1) * window.stride +
                    (window.size - 1) * window.dilation + 1 +
                    settings.outputPadding[i];
    if (settings.outputPadding[i] < 0 || whole - window.low - window.high < 1)
      return c.fail("padding " + Twine(window.low) + " leaves nothing of " +
                    Twine(whole) + " elements");
    sizes.push_back(whole - window.low - window.high);
  }
  if (settings.isTransposed) {
    channels = filters[1] * groups;
    Shape out = {in[0], channels};
    out.append(sizes);
    if (failed(c.emit.fits(out)))
      return failure();
  }
  Imported result =
      settings.isTransposed
          ? convolveTransposed(c.emit, x, weight, windows, groups, sizes)
          : convolve(c.emit, x, weight, windows, groups);
  if (c.has("bias")) {
    Imported bias = c.read("bias");
    if (bias.getShape() != Shape{channels})
      return c.fail("its bias of " + toString(bias.getShape()) +
                    " does not fit " + Twine(channels) + " filters");
    Shape channel(result.getRank(), 1);
    channel[1] = channels;
    result =
        c.emit.binaryOver<graph::AddOp>(result, c.emit.reshape(bias, channel));
  }
  if (isSingle) {
    Shape shape = result.getShape();
    shape.erase(shape.begin());
    result = c.emit.reshape(result, shape);
  }
  return c.give(result, type);
}

size_t spatialDims(Call &c) {
  int64_t rank = c.tensor("weight")->getRank();
  return rank < 2 ? 0 : rank - 2;
}

/// `padding` is numbers, "valid", or "same": as many windows as elements, where
/// an odd padding has its extra element at the end.
FailureOr<Settings> common(Call &c) {
  size_t count = spatialDims(c);
  Settings settings;
  settings.stride = perDim(c, "stride", count);
  settings.dilation = perDim(c, "dilation", count);
  settings.groups = c.integer("groups");
  if (!c["padding"].isString()) {
    settings.low = settings.high = perDim(c, "padding", count);
    return settings;
  }
  StringRef padding = c.text("padding");
  if (padding != "same" && padding != "valid")
    return c.fail("padding '" + padding + "'");
  for (size_t i = 0; i < count; ++i) {
    int64_t dilation = i < settings.dilation.size() ? settings.dilation[i] : 1;
    int64_t all = padding == "same"
                      ? dilation * (c.tensor("weight")->getShape()[2 + i] - 1)
                      : 0;
    settings.low.push_back(all / 2);
    settings.high.push_back(all - all / 2);
  }
  return settings;
}

LogicalResult conv(Call &c) {
  auto settings = common(c);
  return failed(settings) ? failure() : convolution(c, *settings);
}

LogicalResult convTranspose(Call &c) {
  auto settings = common(c);
  if (failed(settings))
    return failure();
  settings->isTransposed = true;
  settings->outputPadding = perDim(c, "output_padding", spatialDims(c));
  return convolution(c, *settings);
}

/// Either a convolution or a transposed one.
LogicalResult convAny(Call &c) {
  return c.flag("transposed") ? convTranspose(c) : conv(c);
}

const OperatorRow rows[] = {
    {"conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] "
     "stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt "
     "groups=1) -> Tensor",
     conv},
    {"conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] "
     "stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], "
     "SymInt groups=1) -> Tensor",
     conv},
    {"conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] "
     "stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] "
     "dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
     conv},
    {"conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, "
     "SymInt[1] stride=[1], str padding=\"valid\", SymInt[1] "
     "dilation=[1], SymInt groups=1) -> Tensor",
     conv},
    {"conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, "
     "SymInt[2] stride=[1, 1], str padding=\"valid\", SymInt[2] "
     "dilation=[1, 1], SymInt groups=1) -> Tensor",
     conv},
    {"conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, "
     "SymInt[3] stride=[1, 1, 1], str padding=\"valid\", SymInt[3] "
     "dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
     conv},
    {"_convolution_mode(Tensor input, Tensor weight, Tensor? bias, "
     "SymInt[] stride, str padding, SymInt[] dilation, SymInt groups) -> "
     "Tensor",
     conv},
    {"conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, "
     "SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] "
     "output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> "
     "Tensor",
     convTranspose},
    {"conv_transpose2d.input(Tensor input, Tensor weight, Tensor? "
     "bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
     "SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] "
     "dilation=[1, 1]) -> Tensor",
     convTranspose},
    {"conv_transpose3d.input(Tensor input, Tensor weight, Tensor? "
     "bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], "
     "SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] "
     "dilation=[1, 1, 1]) -> Tensor",
     convTranspose},
    {"convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] "
     "stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
     "SymInt[] output_padding, SymInt groups) -> Tensor",
     convAny},
    {"_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] "
     "stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
     "SymInt[] output_padding, SymInt groups, bool benchmark, bool "
     "deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
     convAny},
    {"_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, "
     "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
     "transposed, int[] output_padding, SymInt groups, bool benchmark, "
     "bool deterministic, bool cudnn_enabled) -> Tensor",
     convAny},
};

} // namespace

ArrayRef<OperatorRow> getConvolutionRows() { return rows; }

} // namespace polyrank::frontends::aten
