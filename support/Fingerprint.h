// Tells the weights that a plan was compiled with from others at their place.

#pragma once

#include "support/File.h"

#include <string_view>
#include <vector>

namespace polyrank {

/// A digest is of this many bytes; the last one of a span may be of fewer.
inline constexpr uint64_t digestBlock = 1 << 20;

constexpr uint64_t digestBlocksOf(uint64_t length) {
  return length / digestBlock + (length % digestBlock != 0);
}

/// XXH3 of each block of [offset, offset + length): every byte counts. It is no
/// defence against a forger.
Result<std::vector<uint64_t>> digestsOf(const InputFile &file, uint64_t offset,
                                        uint64_t length);

/// Has block number `block` of the span this digest?
Result<bool> hasDigest(const InputFile &file, uint64_t offset, uint64_t length,
                       uint64_t block, uint64_t digest);

/// XXH3 of a text.
uint64_t digestOf(std::string_view text);

} // namespace polyrank
