// The passes that cut a model into the stages of a pipeline.

#pragma once

#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace polyrank::stages {

#define GEN_PASS_DECL
#include "compiler/stages/Passes.h.inc"

/// registerStagesPasses() makes the passes known to tools.
#define GEN_PASS_REGISTRATION
#include "compiler/stages/Passes.h.inc"

} // namespace polyrank::stages
