// Where a buffer of a plan lies in each microbatch and in each iteration of a
// loop.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <algorithm>

namespace polyrank::runtime {

/// Which execution of a command it is: of which microbatch, and within a loop
/// of which iteration.
struct Turn {
  uint32_t microbatch = 0, iteration = 0;
};

/// Bytes from where the buffer starts in microbatch 0 to where it does in
/// `microbatch`, outside of loops or in the first iteration.
inline uint64_t shiftOf(const plan::BufferRef &buffer, uint32_t microbatch) {
  uint32_t place = buffer.slots() ? microbatch % buffer.slots() : microbatch;
  return place * buffer.stride();
}

/// In how many places it lies during a step of so many microbatches.
inline uint32_t placesOf(const plan::BufferRef &buffer, uint32_t microbatches) {
  return buffer.slots() ? std::min(buffer.slots(), microbatches) : microbatches;
}

/// Bytes by which a buffer starts before and behind its first place in a loop.
struct LoopReach {
  uint64_t back = 0, ahead = 0;
};
/// Over so many iterations, of a buffer that lies in its region in all of them.
inline LoopReach reachOf(const plan::BufferRef &buffer, uint32_t iterations) {
  uint64_t each = uint64_t(buffer.each()), last = iterations - 1;
  return buffer.each() < 0 ? LoopReach{(0 - each) * last, 0}
                           : LoopReach{0, each * last};
}

/// How often what a command names runs, one after the other.
inline uint32_t iterationsOf(const plan::Command &command) {
  const plan::Loop *loop = command.body_as_Loop();
  return loop ? loop->count() : 1;
}

} // namespace polyrank::runtime
