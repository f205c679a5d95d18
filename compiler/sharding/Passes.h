// The sharding passes, from the user's constraints to collectives.

#pragma once

#include <memory>

#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace polyrank::sharding {

#define GEN_PASS_DECL
#include "compiler/sharding/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/sharding/Passes.h.inc"

} // namespace polyrank::sharding
