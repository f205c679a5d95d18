// Recognises whether weight files still hold the bytes with which a plan was
// compiled.

#pragma once

#include "support/File.h"

#include <string_view>
#include <vector>

namespace polyrank {

/// The bytes per digest; the last block of a span may be shorter.
inline constexpr uint64_t digestBlock = 1 << 20;

constexpr uint64_t digestBlocksOf(uint64_t length) {
  return length / digestBlock + (length % digestBlock != 0);
}

/// The XXH3 of each block of [offset, offset + length), over every byte. It
/// does not protect against forgery.
Result<std::vector<uint64_t>> digestsOf(const InputFile &file, uint64_t offset,
                                        uint64_t length);

/// Returns true if block number `block` of the span has this digest.
Result<bool> hasDigest(const InputFile &file, uint64_t offset, uint64_t length,
                       uint64_t block, uint64_t digest);

/// The XXH3 of a text.
uint64_t digestOf(std::string_view text);

} // namespace polyrank
