// Counter-based random numbers, which do not depend on the layout.

#pragma once

#include <cstdint>

#include "dialects/graph/Graph.h"

namespace polyrank::graph {

/// The random bits of element `element` of a tensor that op `id` draws: the
/// first word of Philox-4x32-10 (Salmon et al., SC 2011).
uint32_t getRandomWord(uint64_t id, uint64_t element, uint64_t seed,
                       uint64_t step, uint64_t microbatch);

/// The global index at which a device's block, of local size `size`, of dim
/// `dim` starts, as an i64 scalar: 0 if the dim is not split, or `layout` is
/// null.
mlir::Value getBlockPlace(LocalContext &context, mlir::Location location,
                          sharding::LayoutAttr layout, int64_t dim,
                          int64_t size);

} // namespace polyrank::graph
