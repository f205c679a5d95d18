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

/// The bytes of an element in a sum that is not rounded yet: f16 and bf16 are
/// summed in f32.
int64_t accumulatorBytes(ElementType dtype);

/// The same reduction in steps: of `before`, which a step before this one left
/// (null in the first one), and then of the sources in their order. The result
/// is left for another step, with accumulatorBytes for each element, or with
/// `isLast` it has elements of the type. All steps together give the bits of
/// one reduceElements of all sources.
void addElements(ElementType dtype, Reduction reduction,
                 const std::byte *before,
                 std::span<const std::byte *const> sources, int64_t elements,
                 std::byte *result, bool isLast);

} // namespace polyrank::runtime
