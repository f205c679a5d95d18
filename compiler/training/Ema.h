// Moving means of the parameters.

#pragma once

#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// Exponential moving means: the parameters' values after the first step, from
/// then on decay * mean + (1 - decay) * value, as PyTorch's AveragedModel with
/// get_ema_multi_avg_fn(decay).
struct Ema {
  /// What the state of each trainable parameter is called.
  static constexpr const char *stateName = "ema";

  Ema(double decay = 0) : decay(decay) {} // 0: no means are kept
  explicit operator bool() const { return decay != 0; }

  /// Builds what is computed once for all parameters from the number of steps
  /// done before this one, an i64 scalar.
  void buildScalars(graph::Parts &parts, mlir::Value step);

  /// The next mean, given this one and the parameter's next value.
  mlir::Value buildNext(graph::Parts &parts, mlir::Value mean,
                        mlir::Value value) const;

private:
  double decay;
  mlir::Value share; // of the value in the next mean: an f32 scalar
};

} // namespace polyrank::training
