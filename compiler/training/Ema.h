// Moving averages of the parameters.

#pragma once

#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// Exponential moving averages: the parameters' values after the first step,
/// and from then on decay * average + (1 - decay) * value, like PyTorch's
/// AveragedModel with get_ema_multi_avg_fn(decay).
struct Ema {
  /// The name of the state of each trainable parameter.
  static constexpr const char *stateName = "ema";

  Ema(double decay = 0) : decay(decay) {} // 0: no averages are kept
  explicit operator bool() const { return decay != 0; }

  /// Builds the scalars that all parameters share from `step`, the number of
  /// steps done before this one, an i64 scalar.
  void buildScalars(graph::Parts &parts, mlir::Value step);

  /// The next average, given this one and the parameter's next value.
  mlir::Value buildNext(graph::Parts &parts, mlir::Value mean,
                        mlir::Value value) const;

private:
  double decay;
  mlir::Value share; // the weight of `value` in the next average: an f32 scalar
};

} // namespace polyrank::training
