// What a machine reaches, as an attribute of the module (`rank.reach`).

#pragma once

#include "compiler/cost/Reach.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace polyrank::cost {

/// Returns null for a machine that states nothing of the kind.
mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context,
                                 const Reach &reach);
/// Reads `rank.reach` of the module around `op`; without it all is at its
/// default.
Reach getReach(mlir::Operation *op);

} // namespace polyrank::cost
