// Complex tensors made from real ones, and Fourier transforms of real tensors.

#include <cmath>

#include "frontends/aten/Call.h"
#include "frontends/aten/Complex.h"
#include "frontends/emit/Arithmetic.h"
#include "frontends/emit/Fourier.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

LogicalResult give(Call &c, const Imported &real, const Imported &imaginary) {
  auto tensor = [](const Imported &x) {
    return Value(std::make_shared<Tensor>(x, ElementType::F32));
  };
  return c.give(Complex::of(tensor(real), tensor(imaginary)));
}

/// Gives the complex tensor with `parts` [.., 2].
LogicalResult giveParts(Call &c, const Imported &parts) {
  Shape shape = parts.getShape();
  auto last = static_cast<int64_t>(shape.size()) - 1;
  shape.pop_back();
  auto part = [&](int64_t i) {
    return c.emit.reshape(c.emit.slice(parts, last, i, i + 1), shape);
  };
  return give(c, part(0), part(1));
}

LogicalResult viewAsComplex(Call &c) {
  Shape shape = c.tensor("self")->getShape();
  if (shape.empty() || shape.back() != 2 || !isFloat(c.typeOf("self")))
    return c.fail(c["self"].describe() +
                  " as complex numbers: the last dim has their two parts");
  return giveParts(c, c.as(c["self"], ElementType::F32));
}

LogicalResult complexOf(Call &c) {
  auto both = c.promote({c["real"], c["imag"]}, /*toFloat=*/true);
  return failed(both) ? failure()
                      : give(c, both->operands[0], both->operands[1]);
}

/// abs (cos angle + i sin angle).
LogicalResult polar(Call &c) {
  auto both = c.promote({c["abs"], c["angle"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Arithmetic a{c.emit};
  const Imported &size = both->operands[0], &angle = both->operands[1];
  return give(c, a.mul(size, c.emit.unary<graph::CosOp>(angle)),
              a.mul(size, c.emit.unary<graph::SinOp>(angle)));
}

LogicalResult sameReal(Call &c) { return c.give(c["self"]); }

/// The angle of (x = other, y = self): the arctangent of the quotient with the
/// larger one as divisor, so that the quotient is never infinite.
LogicalResult atan2(Call &c) {
  auto both = c.promote({c["self"], c["other"]}, /*toFloat=*/true);
  if (failed(both))
    return failure();
  Arithmetic a{c.emit};
  const Imported &y = both->operands[0], &x = both->operands[1];
  auto abs = [&](const Imported &z) { return c.emit.unary<graph::AbsOp>(z); };
  Imported isFlat = a.is(abs(x), Comparison::GE, abs(y));
  Imported divisor = c.emit.select(isFlat, x, y);
  divisor = a.where(a.is(divisor, Comparison::NE, 0), divisor, 1);
  Imported angle =
      c.emit.unary<graph::AtanOp>(a.div(c.emit.select(isFlat, y, x), divisor));
  // The quadrant: a steep angle is measured from the y axis, and x < 0 adds
  // half a turn.
  Imported sign = a.where(a.is(y, Comparison::LT, 0), a.number(-1, y), 1);
  Imported behind = a.where(a.is(x, Comparison::LT, 0), a.mul(sign, M_PI), 0);
  return c.give(c.emit.select(isFlat, a.add(angle, behind),
                              a.sub(a.mul(sign, M_PI / 2), angle)),
                both->type);
}

//===-- Fourier transforms -----------------------------------------------===//

/// The dims to transform, and the number of elements of each.
struct Lengths {
  SmallVector<int64_t> dims, sizes;
};

FailureOr<Lengths> lengthsOf(Call &c, ArrayRef<int64_t> shape) {
  auto rank = static_cast<int64_t>(shape.size());
  Lengths lengths;
  SmallVector<int64_t> given;
  if (c.has("n"))
    given = {c.integer("n")};
  else if (c.has("s"))
    given = c.integers("s");
  SmallVector<int64_t> dims;
  if (c.has("dim"))
    dims = c["dim"].isInt() ? SmallVector<int64_t>{c.integer("dim")}
                            : c.integers("dim");
  else // The last dims, one for each size, or all dims.
    for (int64_t dim = given.empty() ? 0 : rank - int64_t(given.size());
         dim < rank; ++dim)
      dims.push_back(dim);
  if (dims.empty() || (!given.empty() && given.size() != dims.size()))
    return c.fail("sizes " + toString(given) + " for dims " + toString(dims) +
                  " of " + toString(shape));
  for (auto [i, each] : llvm::enumerate(dims)) {
    auto dim = c.dim(each, rank);
    if (failed(dim))
      return failure();
    lengths.dims.push_back(*dim);
    int64_t size = given.empty() ? -1 : given[i];
    lengths.sizes.push_back(size == -1 ? shape[*dim] : size);
  }
  return lengths;
}

/// The scale of the result, according to `norm`.
FailureOr<double> scaleOf(Call &c, bool isInverse, ArrayRef<int64_t> sizes) {
  StringRef norm = c.has("norm") ? c.text("norm") : StringRef("backward");
  double count = 1;
  for (int64_t size : sizes)
    count *= static_cast<double>(size);
  if (norm == "ortho")
    return isInverse ? std::sqrt(count) : 1 / std::sqrt(count);
  if (norm == "forward")
    return isInverse ? count : 1 / count;
  if (norm != "backward")
    return c.fail("its norm `" + norm + "`");
  return 1.0;
}

/// Transforms real tensors; complex ones take two of these.
template <bool isInverse, bool isOneSided>
LogicalResult transform(Call &c) {
  Imported x = c.as(c["self"], Call::floatOf(c.typeOf("self")));
  Shape shape = x.getShape();
  auto lengths = lengthsOf(c, shape);
  if (failed(lengths))
    return failure();
  auto scale = scaleOf(c, isInverse, lengths->sizes);
  if (failed(scale))
    return failure();
  shape.push_back(1);
  x = c.emit.reshape(x, shape);
  for (size_t i = lengths->dims.size(); i-- > 0;) {
    int64_t size = lengths->sizes[i], dim = lengths->dims[i];
    if (size < 1 || shape[dim] < 1)
      return c.fail("a Fourier transform of " + Twine(size) + " elements");
    bool isHalved = isOneSided && i + 1 == lengths->dims.size();
    auto transformed =
        fourierTransform(c.emit, x, {dim, size, isInverse, isHalved});
    if (failed(transformed))
      return failure();
    x = *transformed;
  }
  return giveParts(c, *scale == 1 ? x : Arithmetic{c.emit}.mul(x, *scale));
}

/// The inverse of a real spectrum, which is taken as a complex one.
LogicalResult inverseToReal(Call &c) {
  Value self = c["self"];
  Value zeros = call(c.context, "aten::zeros_like", std::nullopt, {self});
  if (zeros.isUnknown())
    return c.fail("its imaginary part");
  std::vector<Value> arguments(c.all());
  arguments[0] = Complex::of(self, zeros);
  Value result = callComplex(c.context, "aten::" + c.schema.name, std::nullopt,
                             arguments, {});
  return result.isUnknown() ? c.fail("its imaginary part is none")
                            : c.give(result);
}

/// Swaps the halves of each dim.
template <bool isInverse>
LogicalResult shift(Call &c) {
  Imported x = c.read("self");
  auto dims = c.dims("dim", x.getRank());
  if (failed(dims))
    return failure();
  for (int64_t dim : *dims) {
    int64_t size = x.getShape()[dim];
    int64_t first = isInverse ? size / 2 : (size + 1) / 2;
    if (size > 1)
      x = c.emit.concat(
          {c.emit.slice(x, dim, first, size), c.emit.slice(x, dim, 0, first)},
          dim);
  }
  return c.give(x, c.typeOf("self"));
}

/// Short-time Fourier transform: transforms windowed parts of x [T] or [B, T]:
/// [.., frequency, part].
LogicalResult shortTime(Call &c) {
  Imported x = c.as(c["self"], Call::floatOf(c.typeOf("self")));
  int64_t rank = x.getRank(), size = c.integer("n_fft");
  int64_t hop = c.integer("hop_length", size / 4),
          width = c.integer("win_length", size);
  if (rank < 1 || rank > 2 || size < 1 || size > x.getShape().back() ||
      hop < 1 || width < 1 || width > size)
    return c.fail("parts of " + Twine(size) + " elements, " + Twine(hop) +
                  " apart, with a window of " + Twine(width) + ", of " +
                  c["self"].describe());
  Arithmetic a{c.emit};
  x = c.emit.unary<graph::UnfoldOp>(x, rank - 1, size, hop, int64_t(1),
                                    int64_t(0), int64_t(0), 0.0);
  // A narrower window is centred.
  Imported window = c.has("window")
                        ? c.as(c["window"], ElementType::F32)
                        : c.emit.broadcast(c.emit.scalar(x.getElementType(), 1),
                                           {width}, false);
  if (window.getShape() != Shape{width})
    return c.fail("a window of " + toString(window.getShape()) + " where " +
                  Twine(width) + " elements are asked for");
  int64_t low = (size - width) / 2;
  window = c.emit.unary<graph::PadOp>(window, ArrayRef<int64_t>({low}),
                                      ArrayRef<int64_t>({size - width - low}),
                                      ArrayRef<int64_t>({0}), 0.0);
  x = a.mul(x, window);
  Shape shape = x.getShape();
  shape.push_back(1);
  bool isOneSided = !c.has("onesided") || c.flag("onesided");
  auto parts = fourierTransform(c.emit, c.emit.reshape(x, shape),
                                {rank, size, /*isInverse=*/false, isOneSided});
  if (failed(parts))
    return failure();
  x = *parts;
  if (c.flag("normalized"))
    x = a.mul(x, 1 / std::sqrt(static_cast<double>(size)));
  // Frequencies come before parts.
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(rank + 2));
  std::swap(order[rank - 1], order[rank]);
  x = c.emit.transpose(x, order);
  if (c.has("return_complex") && c.flag("return_complex"))
    return giveParts(c, x);
  return c.give(x, Call::floatOf(c.typeOf("self")));
}

const OperatorRow rows[] = {
    {"view_as_complex(Tensor(a) self) -> Tensor(a)", viewAsComplex},
    {"complex(Tensor real, Tensor imag) -> Tensor", complexOf},
    {"polar(Tensor abs, Tensor angle) -> Tensor", polar},
    {"real(Tensor(a) self) -> Tensor(a)", sameReal},
    {"conj(Tensor(a) self) -> Tensor(a)", sameReal},
    {"atan2(Tensor self, Tensor other) -> Tensor", atan2},
    {"arctan2(Tensor self, Tensor other) -> Tensor", atan2},
    {"fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> "
     "Tensor",
     transform<false, false>},
    {"fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> "
     "Tensor",
     transform<true, false>},
    {"fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> "
     "Tensor",
     transform<false, true>},
    {"fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> "
     "Tensor",
     inverseToReal},
    {"fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? "
     "norm=None) -> Tensor",
     transform<false, false>},
    {"fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? "
     "norm=None) -> Tensor",
     transform<true, false>},
    {"fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? "
     "norm=None) -> Tensor",
     transform<false, true>},
    {"fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? "
     "norm=None) -> Tensor",
     inverseToReal},
    {"fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? "
     "norm=None) -> Tensor",
     transform<false, false>},
    {"fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? "
     "norm=None) -> Tensor",
     transform<true, false>},
    {"fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? "
     "norm=None) -> Tensor",
     transform<false, true>},
    {"fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? "
     "norm=None) -> Tensor",
     inverseToReal},
    {"fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", shift<false>},
    {"fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", shift<true>},
    {"stft(Tensor self, int n_fft, int? hop_length=None, int? "
     "win_length=None, Tensor? window=None, bool normalized=False, bool? "
     "onesided=None, bool? return_complex=None, bool? align_to_window=None) "
     "-> Tensor",
     shortTime},
};

} // namespace

ArrayRef<OperatorRow> getComplexRows() { return rows; }

} // namespace polyrank::frontends::aten
