// The batch dim of a model's arrays.

#pragma once

#include <cstdint>

namespace polyrank {

/// Stands for the batch dim of an input or output without one: all samples
/// share the input, and each step produces one output.
inline constexpr int64_t noBatch = -1;

} // namespace polyrank
