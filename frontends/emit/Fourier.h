// The discrete Fourier transform.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

struct FourierTransform {
  int64_t dim = 0;
  /// The number of elements to transform: x is cut to it, or padded with zeros
  /// at the end.
  int64_t length = 0;
  /// The inverse: the other sign of the exponent, divided by the length.
  bool isInverse = false;
  /// Returns only the first length / 2 + 1 results; for real input the others
  /// are their conjugates.
  bool isOneSided = false;
};

/// Transforms x, whose last dim holds real numbers (size 1) or real and
/// imaginary parts (size 2); that of the result has size 2. It is a product
/// with a matrix of cosines and sines, so it has a gradient, but takes
/// quadratic time: meant for audio frames, not for whole songs.
mlir::FailureOr<Imported> fourierTransform(Emitter &emit, Imported x,
                                           FourierTransform transform);

} // namespace polyrank::frontends
