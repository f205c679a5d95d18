// Counter-based random numbers: Philox-4x32-10 (Salmon et al., "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011).

#pragma once

#include <cstdint>

namespace polyrank {

/// Returns the first output word for a key and a counter of four words. `Word`
/// is uint32_t, or a vector of them whose lanes are independent.
/// multiply(constant, word, high, low) stores the two halves of the 64-bit
/// product.
template <typename Word, typename Multiply>
[[gnu::always_inline]] inline Word philox(uint64_t key, Word c0, Word c1,
                                          Word c2, Word c3, Multiply multiply) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    Word leftHigh, leftLow, rightHigh, rightLow;
    multiply(0xD2511F53u, c0, leftHigh, leftLow);
    multiply(0xCD9E8D57u, c2, rightHigh, rightLow);
    c0 = rightHigh ^ c1 ^ key0;
    c1 = rightLow;
    c2 = leftHigh ^ c3 ^ key1;
    c3 = leftLow;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c0;
}

/// Returns the key of the op `id`.
inline uint64_t randomKey(uint64_t id, uint64_t seed) {
  return seed ^ id * 0x9E3779B97F4A7C15u;
}

/// Returns the random bits of element `element` of a tensor that op `id` draws.
inline uint32_t randomWord(uint64_t id, uint64_t element, uint64_t seed,
                           uint64_t step, uint64_t microbatch) {
  return philox(
      randomKey(id, seed), static_cast<uint32_t>(element),
      static_cast<uint32_t>(element >> 32), static_cast<uint32_t>(step),
      static_cast<uint32_t>(microbatch),
      [](uint32_t constant, uint32_t word, uint32_t &high, uint32_t &low) {
        uint64_t product = uint64_t(constant) * word;
        high = static_cast<uint32_t>(product >> 32);
        low = static_cast<uint32_t>(product);
      });
}

} // namespace polyrank
