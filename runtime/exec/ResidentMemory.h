// How much memory this process has.

#pragma once

#include <cstdint>

namespace polyrank::runtime {

/// The most memory that this process ever had resident; what it has in pages
/// that it shares with no file or memfd, and in memfds; in bytes.
struct ResidentMemory {
  uint64_t peak = 0, anonymous = 0, shared = 0;
};
ResidentMemory residentMemory();

/// What it has resident now, in bytes, shared or not; quicker than all of that.
uint64_t residentBytes();

} // namespace polyrank::runtime
