// The text of --link, which compiler and runtime read alike:
// AXIS=MICROSECONDS:GB_PER_S.

#pragma once

#include "support/LinkTime.h"
#include "support/Result.h"

#include <string>
#include <string_view>

namespace polyrank {

/// Latency and bandwidth of the links along one axis of a mesh, as the user
/// gave them.
struct LinkSpec {
  std::string axis;
  double microseconds = 0, gigabytes = 0;

  /// Return true for numbers with which costs are meaningful: a latency
  /// of up to a second, and at least a kilobyte per second.
  /// @{
  static bool hasLatency(double microseconds) {
    return microseconds >= 0 && microseconds <= 1e6;
  }
  static bool hasBandwidth(double gigabytes) {
    return gigabytes >= 1e-6 && gigabytes <= 1e6;
  }
  /// @}

  LinkTime time() const { return LinkTime::of(microseconds, gigabytes); }

  /// Parses one link.
  static Result<LinkSpec> parse(std::string_view text);
};

} // namespace polyrank
