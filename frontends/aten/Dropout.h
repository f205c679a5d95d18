// The rate of a dropout, for every operator that has one.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// Returns the rate of `--dropout` if given, else `rate` if the model was saved
/// with the dropout on, else 0. Fails if the rate is outside [0, 1).
mlir::FailureOr<double> dropoutRate(Call &c, double rate, bool isOn);

} // namespace polyrank::frontends::aten
