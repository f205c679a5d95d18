// The passes that turn an imported model into one training step.

#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace polyrank::training {

#define GEN_PASS_DECL
#include "compiler/training/Passes.h.inc"

/// Declares the passes, and registerTrainingPasses(), which registers them.
#define GEN_PASS_REGISTRATION
#include "compiler/training/Passes.h.inc"

} // namespace polyrank::training
