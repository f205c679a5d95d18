// Integers of types that are computed in wider ones.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// `x` of integers as `type` holds it: its lower bits, with their sign where it
/// has one.
Imported wrapAround(Emitter &emit, const Imported &x, mlir::IntegerType type);

} // namespace polyrank::frontends
