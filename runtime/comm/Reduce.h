// Elementwise sums, maxima and minima over the members of a group.

#pragma once

#include "runtime/comm/Transport.h"

namespace polyrank::runtime {

bool canReduce(DType dtype, Reduction reduction);

/// How many elements one call of reduceBlock takes at most: few enough that
/// the accumulator stays in the first-level cache.
inline constexpr int64_t reduceBlockElements = 2048;

/// result[e] = (..(sources[0][e] op sources[1][e]) op ..), for e < elements <=
/// reduceBlockElements. The result overlaps no source. Needs canReduce.
void reduceBlock(DType dtype, Reduction reduction,
                 std::span<const std::byte *const> sources, int64_t elements,
                 std::byte *result);

} // namespace polyrank::runtime
