// The values of a step that are parts of the gradients of parameters.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::training {

/// Returns the values that become gradients of parameters (`graph.gradient`) by
/// sums alone, over rows, microbatches or uses, and by ops that move elements.
/// Rounding such a value would round each summand of the gradient.
llvm::DenseSet<mlir::Value> findParameterGradients(mlir::Block &step);

} // namespace polyrank::training
