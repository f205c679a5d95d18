// Sampled XXH3.

#include "runtime/Fingerprint.h"

#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace polyrank::runtime {

Result<uint64_t> fingerprintOf(const InputFile &file, uint64_t offset,
                               uint64_t length) {
  constexpr uint64_t pieces = 16, pieceSize = 4096;
  bool whole = length <= pieces * pieceSize;
  std::vector<std::byte> bytes(whole ? length : pieces * pieceSize);
  if (whole) {
    if (Result<void> done = file.readAt(offset, bytes.data(), length); !done)
      return done.error();
  } else {
    // A remainder of the division only moves pieces by a byte.
    uint64_t last = length - pieceSize, step = last / (pieces - 1);
    for (uint64_t piece = 0; piece < pieces; ++piece) {
      uint64_t at = piece + 1 == pieces ? last : piece * step;
      if (Result<void> done = file.readAt(
              offset + at, bytes.data() + piece * pieceSize, pieceSize);
          !done)
        return done.error();
    }
  }
  uint64_t digest = XXH3_64bits_withSeed(bytes.data(), bytes.size(), length);
  return digest ? digest : 1;
}

} // namespace polyrank::runtime
