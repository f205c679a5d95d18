// What a kernel costs.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"

namespace polyrank::cost {

/// FLOPs and bytes of one launch.
graph::Cost getCost(kernel::LoopsOp loops);

} // namespace polyrank::cost
