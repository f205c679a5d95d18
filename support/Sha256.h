// SHA-256 (FIPS 180-4), to compare a file with what the user was told of it.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace polyrank {

class Sha256 {
public:
  void add(std::span<const uint8_t> bytes);
  /// Of all bytes, as 64 hex digits. Nothing is added after it.
  std::string hex();

private:
  void addBlock(const uint8_t *block);

  std::array<uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest{}; // of which `size` % 64 are filled
  uint64_t size = 0;
};

} // namespace polyrank
