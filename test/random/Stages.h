// Random stages of a pipeline.

#pragma once

#include "dialects/pipeline/Pipeline.h"
#include "mlir/IR/BuiltinOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

/// Puts the ops of @forward that depend on a parameter on up to four stages, in
/// any way in which values only go to later ones, and draws a schedule for
/// them. Returns the size of the pipe axis, or 0 where the program is left as
/// it is.
int64_t drawStages(mlir::ModuleOp module, Random &random);

/// The name of the pipe axis of random programs.
inline constexpr llvm::StringLiteral pipeAxis = "pipe";

} // namespace polyrank::test
