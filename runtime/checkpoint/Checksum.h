// What tells damaged bytes of a checkpoint from those that were written.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// A checksum is of this many bytes; the last one of a chunk may be of fewer.
/// So what a rank reads of a large chunk is all that it has to check.
inline constexpr uint64_t checksumBlock = uint64_t(4) << 20;

constexpr uint64_t checksumBlocksOf(uint64_t bytes) {
  return bytes / checksumBlock + (bytes % checksumBlock != 0);
}

/// XXH3, 64 bits.
uint64_t checksumOf(std::span<const std::byte> bytes);
/// Of each block.
std::vector<uint64_t> checksumsOf(std::span<const std::byte> bytes);

/// XXH3, 128 bits, as 32 hex digits.
std::string digestOf(std::string_view text);

/// 16 hex digits, and back.
std::string toHex(uint64_t checksum);
std::optional<uint64_t> checksumFromHex(std::string_view text);

} // namespace polyrank::runtime
