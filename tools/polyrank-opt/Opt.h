// polyrank-opt for any targets.

#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace polyrank {

/// Runs polyrank-opt with the targets that `registerTarget` makes known, and
/// returns its exit status.
int runOpt(int argc, char **argv,
           void (*registerTarget)(mlir::DialectRegistry &));

} // namespace polyrank
