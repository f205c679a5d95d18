// How many blocks of a kernel run at the same time on a GPU's multiprocessor.

#pragma once

#include <cstdint>
#include <string_view>

namespace polyrank::runtime {

/// The multiprocessors of an H100 and an H200, by which reports count waves.
inline constexpr uint64_t multiprocessors = 132;

/// What a block of a kernel takes.
struct BlockNeeds {
  uint64_t threads = 0, sharedBytes = 0;
  uint64_t registers = 0; // of each thread
};

/// Returns how many blocks a multiprocessor of an architecture such as "sm_90a"
/// holds; 0 if the architecture is unknown or the block needs more than one
/// has.
uint64_t residentBlocks(std::string_view architecture, const BlockNeeds &block);

} // namespace polyrank::runtime
