// Integers of types that are computed in wider ones.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Wraps the integers `x` to the range of `type`: its lower bits, sign-extended
/// if it is signed.
Imported wrapAround(Emitter &emit, const Imported &x, mlir::IntegerType type);

} // namespace polyrank::frontends
