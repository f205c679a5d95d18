// The FLOPs and bytes of a kernel.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"

namespace polyrank::cost {

/// Returns the FLOPs and bytes of one launch of a kernel with these loops.
graph::Cost getCost(kernel::LoopsOp loops);

} // namespace polyrank::cost
