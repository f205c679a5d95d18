// The passes that order the commands of a rank.

#pragma once

#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace polyrank::overlap {

#define GEN_PASS_DECL
#include "compiler/overlap/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/overlap/Passes.h.inc"

} // namespace polyrank::overlap
