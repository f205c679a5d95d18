// Counter-based random numbers, which do not depend on the layout.

#pragma once

#include <cstdint>

namespace polyrank::graph {

/// The random bits of element `element` of a tensor that op `id` draws: the
/// first word of Philox-4x32-10 (Salmon et al., SC 2011).
uint32_t getRandomWord(uint64_t id, uint64_t element, uint64_t seed,
                       uint64_t step, uint64_t microbatch);

} // namespace polyrank::graph
