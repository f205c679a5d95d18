// The address of a plan's buffer in each microbatch and in each iteration of a
// loop.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <algorithm>

namespace polyrank::runtime {

/// Identifies one execution of a command: its microbatch and, in a loop, its
/// iteration.
struct Invocation {
  uint32_t microbatch = 0, iteration = 0;
};

/// Returns the bytes from the buffer's start in microbatch 0 to its start in
/// `microbatch`, outside of loops or in the first iteration.
inline uint64_t shiftOf(const plan::BufferRef &buffer, uint32_t microbatch) {
  uint32_t place = buffer.slots() ? microbatch % buffer.slots() : microbatch;
  return place * buffer.stride();
}

/// Returns the number of places that the buffer has during a step of
/// `microbatches` microbatches.
inline uint32_t placesOf(const plan::BufferRef &buffer, uint32_t microbatches) {
  return buffer.slots() ? std::min(buffer.slots(), microbatches) : microbatches;
}

/// The bytes by which a buffer starts before and after its first place in a
/// loop.
struct LoopReach {
  uint64_t back = 0, ahead = 0;
};
/// Returns the reach over `iterations` iterations, for a buffer that lies in
/// its region in all of them.
inline LoopReach reachOf(const plan::BufferRef &buffer, uint32_t iterations) {
  uint64_t each = uint64_t(buffer.each()), last = iterations - 1;
  return buffer.each() < 0 ? LoopReach{(0 - each) * last, 0}
                           : LoopReach{0, each * last};
}

/// Returns how often the body of a command runs: the count of a loop, else 1.
inline uint32_t iterationsOf(const plan::Command &command) {
  const plan::Loop *loop = command.body_as_Loop();
  return loop ? loop->count() : 1;
}

} // namespace polyrank::runtime
