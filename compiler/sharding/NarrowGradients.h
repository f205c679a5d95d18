// Gradients that are rounded before they are added up over devices
// (--reduce-dtype).
//
//   %n = graph.convert %d {parts}       partial: each device rounds its part
//   %r = sharding.reshard %n            the reduction, if there is one
//   %g = graph.gradient %r of @w
//   %w = graph.convert %g               what the update reads

#pragma once

#include "dialects/graph/Graph.h"
#include "llvm/ADT/SetVector.h"

namespace polyrank::sharding {

/// The conversion that rounds the parts of the gradient; null if they are not
/// rounded.
graph::ConvertOp getNarrowing(graph::GradientOp gradient);

/// Lets the gradient and the update read what getNarrowing would have rounded,
/// in its own type. Conversions that are erased are removed from `own`.
void widenGradient(graph::GradientOp gradient,
                   llvm::SetVector<mlir::Operation *> *own = nullptr);

} // namespace polyrank::sharding
