// The passes from a partitioned step to a program of one device.

#pragma once

#include "compiler/lowering/AttentionKind.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace polyrank::lowering {

#define GEN_PASS_DECL
#include "compiler/lowering/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/lowering/Passes.h.inc"

} // namespace polyrank::lowering
