// The checksums by which damaged bytes of a checkpoint are found.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// The size of a checksummed block, in bytes; the last block of a chunk may be
/// smaller. A rank that reads a part of a large chunk checks only the blocks it
/// touches.
inline constexpr uint64_t checksumBlock = uint64_t(4) << 20;

constexpr uint64_t checksumBlocksOf(uint64_t bytes) {
  return bytes / checksumBlock + (bytes % checksumBlock != 0);
}

/// XXH3, 64 bits.
uint64_t checksumOf(std::span<const std::byte> bytes);
/// Returns the checksum of each block.
std::vector<uint64_t> checksumsOf(std::span<const std::byte> bytes);

/// XXH3, 128 bits, as 32 hex digits.
std::string digestOf(std::string_view text);

/// Converts a checksum to 16 hex digits, and back.
std::string toHex(uint64_t checksum);
std::optional<uint64_t> checksumFromHex(std::string_view text);

} // namespace polyrank::runtime
