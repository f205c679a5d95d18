// Where a model's arrays have the batch.

#pragma once

#include <cstdint>

namespace polyrank {

/// The batch dim of an input or output that has none: all samples take the same
/// input, each step makes one output.
inline constexpr int64_t noBatch = -1;

} // namespace polyrank
