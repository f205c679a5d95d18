// The memory use of this process.

#pragma once

#include <cstdint>

namespace polyrank::runtime {

/// The peak resident memory of this process; its anonymous memory; and its
/// memory in memfds. All in bytes.
struct ResidentMemory {
  uint64_t peak = 0, anonymous = 0, shared = 0;
};
ResidentMemory residentMemory();

/// The bytes that are resident now, shared or not. Faster than
/// `residentMemory`.
uint64_t residentBytes();

} // namespace polyrank::runtime
