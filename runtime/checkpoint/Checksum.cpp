// XXH3 of libxxhash, and numbers as hex digits.

#include "runtime/checkpoint/Checksum.h"

#include <algorithm>
#include <array>
#include <charconv>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace polyrank::runtime {

uint64_t checksumOf(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::vector<uint64_t> checksumsOf(std::span<const std::byte> bytes) {
  std::vector<uint64_t> checksums;
  for (uint64_t at = 0; at < bytes.size(); at += checksumBlock)
    checksums.push_back(checksumOf(
        bytes.subspan(at, std::min(checksumBlock, bytes.size() - at))));
  return checksums;
}

std::string digestOf(std::string_view text) {
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return toHex(hash.high64) + toHex(hash.low64);
}

std::string toHex(uint64_t checksum) {
  std::string text(16, '0');
  for (size_t digit = 16; digit-- > 0; checksum >>= 4)
    text[digit] = "0123456789abcdef"[checksum & 15];
  return text;
}

std::optional<uint64_t> checksumFromHex(std::string_view text) {
  if (text.size() != 16 ||
      text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  uint64_t checksum = 0;
  std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
  return checksum;
}

} // namespace polyrank::runtime
