// Where what one rank sends to another lies meanwhile: rules that the compiler,
// the plan's verifier and transports share.

#pragma once

#include <cstdint>

namespace polyrank::runtime {

/// Bytes of a channel's header, and what its slots are multiples of.
inline constexpr uint64_t channelAlignment = 64;

/// Bytes from one slot to the next, each of which holds a value of `bytes`.
constexpr uint64_t slotBytesOf(uint64_t bytes) {
  return (bytes + channelAlignment - 1) / channelAlignment * channelAlignment;
}

/// Of a whole channel. Of sizes that an arena can have.
constexpr uint64_t channelBytesOf(uint64_t bytes, uint64_t slots) {
  return channelAlignment + slots * slotBytesOf(bytes);
}

} // namespace polyrank::runtime
