// Draws that are the same on every machine: the distributions of the standard
// library are not.

#pragma once

#include <cstdint>
#include <random>

namespace polyrank::test {

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed * 0x9E3779B97F4A7C15 + 1) {}

  /// Returns a number in [0, count).
  int64_t below(int64_t count) {
    return static_cast<int64_t>(engine() % static_cast<uint64_t>(count));
  }
  /// Returns a number in [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + below(high - low + 1);
  }
  bool chance(int64_t percent) { return below(100) < percent; }
  template <typename Range>
  auto pick(const Range &range) {
    return range[below(static_cast<int64_t>(range.size()))];
  }
  template <typename T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int64_t>(list.size()))];
  }

private:
  std::mt19937_64 engine;
};

} // namespace polyrank::test
