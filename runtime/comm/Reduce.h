// Elementwise sums, maxima and minima over the members of a group.

#pragma once

#include "runtime/comm/Communicator.h"

namespace polyrank::runtime {

/// results[r][e] = (..(sources[0][e] op sources[1][e]) op ..) for all r and e <
/// elements. A result may be identical to a source, but must not overlap one
/// partially. `reduction` is not None.
void reduceElements(ElementType dtype, Reduction reduction,
                    std::span<const std::byte *const> sources, int64_t elements,
                    std::span<std::byte *const> results);

} // namespace polyrank::runtime
