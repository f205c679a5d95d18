// Resizing, one dim at a time. An element of the result is a weighted sum of
// elements of the operand, so a dim is multiplied by a matrix of weights that
// is known at compile time. If each element is a copy of one (`nearest`), the
// dim is repeated, sliced or gathered instead.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// How one dim is resized.
struct Resized {
  int64_t dim, from, to;
  double length; // before rounding to `to`
  /// For `tf_crop_and_resize`: the range that is sampled, where 0 is the first
  /// element and 1 the last. It may exceed both.
  double start = 0, end = 1;

  double getScale() const { return length / static_cast<double>(from); }
};

/// How all dims are sampled, in the terms of ONNX's Resize (opset 19): `mode`,
/// `coordinate_transformation_mode`, `nearest_mode`, `cubic_coeff_a`,
/// `exclude_outside`, `antialias`.
struct Sampling {
  llvm::StringRef mode, coordinates, nearest;
  double cubic = -0.75;
  bool excludesOutside = false, antialias = false;
  /// True before opset 11, which does not define the nearest elements when a
  /// dim shrinks.
  bool isOld = false;
  /// The value of elements whose position is outside of the operand.
  double extrapolation = 0;
};

/// Resizes the dims `resized` of `x`, each given once, to their new sizes.
mlir::FailureOr<Imported> resize(Emitter &emit, Imported x,
                                 llvm::SmallVector<Resized> resized,
                                 const Sampling &sampling);

} // namespace polyrank::frontends
