// The text of --rates: compute=GFLOPS,memory=GB_PER_S.

#pragma once

#include "support/Result.h"

#include <string_view>

namespace polyrank {

/// What a rank reaches with all its threads, as the user gave it: products in
/// GFLOP/s, and reads and writes of memory in GB/s.
struct RatesSpec {
  double gigaflops = 0, gigabytes = 0;

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

  /// Parses both rates, also in the former spelling, GFLOPS:GB_PER_S.
  static Result<RatesSpec> parse(std::string_view text);
};

} // namespace polyrank
