// Blocks of a tensor: what the members of a group hold of one dim, in group
// order, and what they make of it together.

#pragma once

#include "dialects/graph/Tensor.h"
#include "dialects/sharding/Layout.h"

namespace polyrank::graph {

/// Block `index` of `count` equal ones along dim `dim`.
Tensor blockOf(const Tensor &value, int64_t dim, int64_t count, int64_t index);
/// The blocks one after another along dim `dim`.
Tensor join(llvm::ArrayRef<Tensor> blocks, int64_t dim);
/// Elementwise, from the first on, as transports do.
Tensor reduce(llvm::ArrayRef<Tensor> parts, sharding::ReductionKind kind);

/// Block `me` with the borders around it, undefined beyond the first and last.
Tensor widen(llvm::ArrayRef<Tensor> blocks, int64_t me, int64_t dim,
             int64_t low, int64_t high);
/// The transpose: the sum of the widened blocks where they overlap block `me`.
Tensor addOverlaps(llvm::ArrayRef<Tensor> blocks, int64_t me, int64_t dim,
                   int64_t low, int64_t high);

} // namespace polyrank::graph
