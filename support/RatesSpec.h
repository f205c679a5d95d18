// The text of --rates: compute=GFLOPS,memory=GB_PER_S, and the rates of narrow
// products, bf16=GFLOPS.

#pragma once

#include "support/ElementType.h"
#include "support/Result.h"

#include <string_view>
#include <utility>
#include <vector>

namespace polyrank {

/// The rates that a rank reaches with all its threads, as the user gave them:
/// products of f32 in GFLOP/s, and reads and writes of memory in GB/s.
struct RatesSpec {
  double gigaflops = 0, gigabytes = 0;
  /// GFLOP/s of products of bf16 and f16, where they are given.
  std::vector<std::pair<ElementType, double>> narrow = {};

  /// Return true for rates of real machines; planned times are integers, so
  /// that others would make no sense.
  /// @{
  static bool canCompute(double gigaflops) {
    return gigaflops >= 1e-3 && gigaflops <= 1e7;
  }
  static bool canRead(double gigabytes) {
    return gigabytes >= 1e-3 && gigabytes <= 1e6;
  }
  /// @}

  /// Parses the rates; both also in the former spelling, GFLOPS:GB_PER_S.
  static Result<RatesSpec> parse(std::string_view text);

private:
  /// The rate with this name, which is 0 so far; null if there is none.
  double *find(std::string_view key);
};

} // namespace polyrank
