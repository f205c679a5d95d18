// Which composites, split on a composite factor, give partial sums.

#pragma once

#include "mlir/IR/Operation.h"

namespace polyrank::graph {

/// Returns true if the parts of the composite compute each result that lacks
/// the composite factor as a sum over its blocks, as the gradients of
/// attention's keys are a sum over the queries. Then the results may stay
/// partial sums if the factor is split. False for ops that are no composites,
/// and for factors of other kinds.
bool addsUp(mlir::Operation *op, int factor);

} // namespace polyrank::graph
