// Where a buffer of a plan lies in each microbatch.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <algorithm>

namespace polyrank::runtime {

/// Bytes from where the buffer starts in microbatch 0 to where it does in
/// `microbatch`.
inline uint64_t shiftOf(const plan::BufferRef &buffer, uint32_t microbatch) {
  uint32_t place = buffer.slots() ? microbatch % buffer.slots() : microbatch;
  return place * buffer.stride();
}

/// In how many places it lies during a step of so many microbatches.
inline uint32_t placesOf(const plan::BufferRef &buffer, uint32_t microbatches) {
  return buffer.slots() ? std::min(buffer.slots(), microbatches) : microbatches;
}

} // namespace polyrank::runtime
