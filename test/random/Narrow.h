// Random programs whose ops compute with bf16 and f16, or with f64.

#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

/// Makes some ops of `@forward` ops on bf16 or f16: their operands are
/// converted before and their results after them, so that all other ops keep
/// their types.
void narrowSomeOps(mlir::ModuleOp module, Random &random);

/// The same with f64.
void widenSomeOps(mlir::ModuleOp module, Random &random);

/// Returns true if some value of the program is a narrow float.
bool hasNarrowFloats(mlir::Operation *program);

} // namespace polyrank::test
