// The memory of channels between ranks, by which compiler, plan verifier and
// reports count it, and from which communicators on one machine take it.

#pragma once

#include <cstdint>

namespace polyrank::runtime {

/// The alignment of a channel's slots.
inline constexpr uint64_t slotAlignment = 64;

/// The bytes from one slot to the next, for values of `bytes` bytes.
constexpr uint64_t slotBytesOf(uint64_t bytes) {
  return (bytes + slotAlignment - 1) / slotAlignment * slotAlignment;
}

/// The bytes of the slots of a channel: what the communicator of the rank that
/// sends takes for it. Does not overflow for sizes that memory can have.
constexpr uint64_t channelBytesOf(uint64_t bytes, uint64_t slots) {
  return slots * slotBytesOf(bytes);
}

} // namespace polyrank::runtime
