// The passes that form and lower kernels.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"

namespace polyrank::codegen {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/codegen/Passes.h.inc"

} // namespace polyrank::codegen
