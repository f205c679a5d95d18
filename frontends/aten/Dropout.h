// Which rate a dropout has, wherever it stands.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// `--dropout`, else `rate` where the model was saved with the dropout on, else
/// 0. Fails where it is outside of [0, 1).
mlir::FailureOr<double> dropoutRate(Call &c, double rate, bool isOn);

} // namespace polyrank::frontends::aten
