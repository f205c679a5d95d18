// Computes XXH3 block by block.

#include "support/Fingerprint.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace polyrank {
namespace {

Result<uint64_t> digestOf(const InputFile &file, uint64_t offset,
                          uint64_t length, uint64_t block,
                          std::vector<std::byte> &bytes) {
  uint64_t begin = block * digestBlock;
  bytes.resize(std::min(digestBlock, length - begin));
  if (Result<void> done =
          file.readAt(offset + begin, bytes.data(), bytes.size());
      !done)
    return done.error();
  return uint64_t(XXH3_64bits_withSeed(bytes.data(), bytes.size(), length));
}

} // namespace

Result<std::vector<uint64_t>> digestsOf(const InputFile &file, uint64_t offset,
                                        uint64_t length) {
  std::vector<uint64_t> digests;
  std::vector<std::byte> bytes;
  for (uint64_t block = 0; block < digestBlocksOf(length); ++block) {
    POLYRANK_ASSIGN(digest, digestOf(file, offset, length, block, bytes));
    digests.push_back(digest);
  }
  return std::move(digests);
}

Result<bool> hasDigest(const InputFile &file, uint64_t offset, uint64_t length,
                       uint64_t block, uint64_t digest) {
  std::vector<std::byte> bytes;
  POLYRANK_ASSIGN(found, digestOf(file, offset, length, block, bytes));
  return found == digest;
}

uint64_t digestOf(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

} // namespace polyrank
