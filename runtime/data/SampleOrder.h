// The order in which samples are taken: a function of the position alone, not
// of the ranks.

#pragma once

#include <array>
#include <cstdint>

namespace polyrank::runtime {

/// A bijection of [0, size), computed without a table: a balanced Feistel
/// network over the next power of four, walked until it lands inside (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", 2002). It shuffles, and is
/// not cryptographically secure.
class KeyedPermutation {
public:
  /// `size` is at least 1 and below 2^62.
  KeyedPermutation(uint64_t size, uint64_t seed, uint64_t epoch);
  uint64_t operator()(uint64_t index) const;

private:
  static constexpr int rounds = 8;
  std::array<uint64_t, rounds> keys;
  uint64_t size, mask;
  int halfBits;
};

enum class SampleOrder { Random, Sequential };

/// Returns the sample at global position p = step * batch + b. Every epoch, of
/// `size` positions, visits each sample once: in order, or in the order of the
/// permutation keyed by (seed, p / size).
uint64_t sampleAt(SampleOrder order, uint64_t size, uint64_t seed,
                  uint64_t position);

} // namespace polyrank::runtime
