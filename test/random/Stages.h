// Random stages of a pipeline.

#pragma once

#include "dialects/pipeline/Pipeline.h"
#include "mlir/IR/BuiltinOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

/// Assigns the ops of @forward that depend on a parameter to up to four stages,
/// at random but so that values only go to later ones, and draws a schedule for
/// them. Returns the size of the pipe axis, or 0 if the program is unchanged.
int64_t drawStages(mlir::ModuleOp module, Random &random);

/// The name of the pipe axis of random programs.
inline constexpr llvm::StringLiteral pipeAxis = "pipe";

} // namespace polyrank::test
