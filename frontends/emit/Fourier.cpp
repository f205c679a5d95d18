// The discrete Fourier transform as a matrix product.

#include "frontends/emit/Fourier.h"

#include <cmath>

using namespace mlir;

namespace polyrank::frontends {

/// The factor by which element [n, part] of x enters element [k, real or
/// imaginary] of the result: x times cos(a) + i sin(a), a = -+ 2 pi n k /
/// length.
static graph::Tensor matrixOf(Emitter &emit, ArrayRef<int64_t> shape,
                              const FourierTransform &transform) {
  graph::Tensor matrix(emit.getBuilder().getF32Type(), Shape(shape));
  constexpr double pi = 3.14159265358979323846;
  double sign = transform.isInverse ? 1 : -1;
  double scale =
      transform.isInverse ? 1 / static_cast<double>(transform.length) : 1;
  size_t at = 0;
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t part = 0; part < shape[1]; ++part)
      for (int64_t k = 0; k < shape[2]; ++k) {
        // The angle, reduced to less than a whole turn.
        auto turn = static_cast<double>(n * k % transform.length) /
                    static_cast<double>(transform.length);
        double real = scale * std::cos(2 * pi * turn);
        double imaginary = scale * sign * std::sin(2 * pi * turn);
        matrix.floats[at++] = part == 0 ? real : -imaginary;
        matrix.floats[at++] = part == 0 ? imaginary : real;
      }
  return matrix;
}

FailureOr<Imported> fourierTransform(Emitter &emit, Imported x,
                                     FourierTransform transform) {
  Shape shape = x.getShape();
  int64_t rank = x.getRank(), parts = shape.back(), length = transform.length;
  if (parts != 1 && parts != 2)
    return emit.fail("the last dim of " + toString(shape) +
                     " has real numbers (1) or complex ones (2)");
  if (length < 1 || length > (int64_t(1) << 20))
    return emit.fail("a Fourier transform of " + Twine(length) + " elements");
  if (transform.isOneSided && parts == 2)
    return emit.fail("one side of complex numbers, whose sides differ");
  int64_t given = std::min(shape[transform.dim], length);
  x = emit.slice(x, transform.dim, 0, given);
  Shape matrix = {given, parts, transform.isOneSided ? length / 2 + 1 : length,
                  2};
  if (countElements(matrix) > maxFolded)
    return emit.fail("a Fourier transform of " + Twine(given) +
                     " elements to " + Twine(matrix[2]) +
                     ", whose matrix is too large");
  using Dims = ArrayRef<int64_t>;
  Imported result = emit.binary<graph::MatmulOp>(
      x, Imported(matrixOf(emit, matrix, transform)), Dims{}, Dims{},
      Dims{transform.dim, rank - 1}, Dims{0, 1});
  // The new dim is the last one.
  SmallVector<int64_t> order;
  for (int64_t d = 0; d < rank - 1; ++d)
    order.push_back(d < transform.dim    ? d
                    : d == transform.dim ? rank - 2
                                         : d - 1);
  order.push_back(rank - 1);
  return emit.transpose(result, order);
}

} // namespace polyrank::frontends
