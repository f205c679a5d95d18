// Blocks of a tensor: what the members of a group hold of one dim, in group
// order, and operations on all of them.

#pragma once

#include "dialects/graph/Tensor.h"
#include "dialects/sharding/Layout.h"

namespace polyrank::graph {

/// Block `index` of `count` equal ones along dim `dim`.
Tensor blockOf(const Tensor &value, int64_t dim, int64_t count, int64_t index);
/// Concatenates the blocks along dim `dim`.
Tensor join(llvm::ArrayRef<Tensor> blocks, int64_t dim);
/// Reduces elementwise, from the first part on, as communicators do.
Tensor reduce(llvm::ArrayRef<Tensor> parts, sharding::ReductionKind kind);

/// Block `me` with its borders, which are undefined beyond the first and the
/// last block.
Tensor widen(llvm::ArrayRef<Tensor> blocks, int64_t me, int64_t dim,
             int64_t low, int64_t high);
/// The transpose of `widen`: the sum of the widened blocks where they overlap
/// block `me`.
Tensor addOverlaps(llvm::ArrayRef<Tensor> blocks, int64_t me, int64_t dim,
                   int64_t low, int64_t high);

} // namespace polyrank::graph
