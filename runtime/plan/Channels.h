// The memory layout of channels between ranks, shared by the compiler, the
// plan's verifier and the communicators.

#pragma once

#include <cstdint>

namespace polyrank::runtime {

/// The bytes of a channel's header, and the alignment of its slots.
inline constexpr uint64_t channelAlignment = 64;

/// The bytes from one slot to the next, for values of `bytes` bytes.
constexpr uint64_t slotBytesOf(uint64_t bytes) {
  return (bytes + channelAlignment - 1) / channelAlignment * channelAlignment;
}

/// The bytes of a whole channel. Does not overflow for sizes that an arena can
/// have.
constexpr uint64_t channelBytesOf(uint64_t bytes, uint64_t slots) {
  return channelAlignment + slots * slotBytesOf(bytes);
}

} // namespace polyrank::runtime
