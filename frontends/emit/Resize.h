// Resizing: each dim is sampled on its own. An element of the result is a
// weighted sum of elements of the operand, so a dim is multiplied with a matrix
// of weights that is known when the model is compiled; where each element is a
// copy of one (`nearest`) the dim is repeated, cut or gathered.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// How one dim is resized.
struct Resized {
  int64_t dim, from, to;
  double length; // before it is rounded to `to`
  /// Of `tf_crop_and_resize`: which part is sampled, 0 the first element and 1
  /// the last. It may reach over both.
  double start = 0, end = 1;

  double getScale() const { return length / static_cast<double>(from); }
};

/// How all of them are sampled, in the words of ONNX's Resize (opset 19):
/// `mode`, `coordinate_transformation_mode`, `nearest_mode`, `cubic_coeff_a`,
/// `exclude_outside`, `antialias`.
struct Sampling {
  llvm::StringRef mode, coordinates, nearest;
  double cubic = -0.75;
  bool excludesOutside = false, antialias = false;
  /// Before opset 11, which does not say what nearest elements of a smaller dim
  /// are.
  bool isOld = false;
  /// What elements are whose position in a part is outside of the operand.
  double extrapolation = 0;
};

/// `x` with the dims of `resized`, each once, in their new sizes.
mlir::FailureOr<Imported> resize(Emitter &emit, Imported x,
                                 llvm::SmallVector<Resized> resized,
                                 const Sampling &sampling);

} // namespace polyrank::frontends
