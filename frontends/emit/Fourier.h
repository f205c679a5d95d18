// The discrete Fourier transform.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

struct FourierTransform {
  int64_t dim = 0;
  /// Over how many elements: of more there are zeros behind those of x, of
  /// fewer the first ones.
  int64_t length = 0;
  /// With the other sign, divided by the length.
  bool isInverse = false;
  /// Of real numbers the first length / 2 + 1 results, of which the others are
  /// the conjugates.
  bool isOneSided = false;
};

/// Of x, whose last dim has real numbers (1) or real and imaginary parts (2);
/// that of the result has 2. A product with a matrix of cosines and sines, so
/// it has a gradient, and costs as much: lengths of audio frames, not of songs.
mlir::FailureOr<Imported> fourierTransform(Emitter &emit, Imported x,
                                           FourierTransform transform);

} // namespace polyrank::frontends
