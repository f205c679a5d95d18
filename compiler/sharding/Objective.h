// The objective of propagation: a tuple of integers, compared
// lexicographically.

#pragma once

#include <array>
#include <cstdint>

#include "llvm/ADT/ArrayRef.h"

namespace polyrank::sharding {

/// The largest number of levels of constraints: each priority is up to two
/// levels, the first one for its parameters.
constexpr int maxLevels = 16;

/// 1. Violations, per level, the most important level first: ops that an axis
///    reaches but that are not split over it (ops computed from gradients need
///    not be), and uses of a parameter in another layout than the user fixed.
/// 2. Bytes that one device sends in a step.
/// 3. FLOPs of one device in a step.
/// 4. Ops that pass a partial on: among equals a partial is reduced at its
///    producer.
/// 5. A hash of the chosen layouts and of the program's structure around them,
///    not of the order of its ops: it makes the optimum unique.
struct Objective {
  std::array<int64_t, maxLevels> violations{};
  int64_t bytes = 0;
  int64_t flops = 0;
  int64_t passes = 0;
  int64_t tie = 0;

  friend auto operator<=>(const Objective &, const Objective &) = default;
  friend bool operator==(const Objective &, const Objective &) = default;
  Objective &operator+=(const Objective &other) {
    for (int i = 0; i < maxLevels; ++i)
      violations[i] += other.violations[i];
    bytes += other.bytes;
    flops += other.flops;
    passes += other.passes;
    tie += other.tie;
    return *this;
  }
  friend Objective operator+(Objective left, const Objective &right) {
    return left += right;
  }
  /// An objective that is greater than any possible one.
  static Objective impossible() {
    Objective result;
    result.violations[0] = int64_t(1) << 40;
    return result;
  }
};

} // namespace polyrank::sharding
