// SHA-256 (FIPS 180-4), for comparing a file with a checksum that the user has.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace polyrank {

class Sha256 {
public:
  void add(std::span<const uint8_t> bytes);
  /// The digest of all bytes added, as 64 hex digits. Nothing can be added
  /// after it.
  std::string hex();

private:
  void addBlock(const uint8_t *block);

  std::array<uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest{}; // `size` % 64 of these are filled
  uint64_t size = 0;
};

} // namespace polyrank
