// How long bytes take over a link: the one type of all that compiler, plan and
// communicators reckon of links.

#pragma once

#include <algorithm>
#include <cstdint>

namespace polyrank {

/// Latency and time per byte of a link. They are fractions: only the time of a
/// whole message or collective is rounded, to a picosecond.
struct LinkTime {
  double latency = 0; // picoseconds, of each message
  double perByte = 0; // picoseconds

  /// The link with a latency in microseconds and a bandwidth in GB/s (10^9
  /// bytes a second).
  static constexpr LinkTime of(double microseconds, double gigabytes) {
    return {microseconds * 1e6, 1e3 / gigabytes};
  }
  /// The larger latency and the lower bandwidth of two links, each by itself.
  constexpr LinkTime slower(const LinkTime &other) const {
    return {std::max(latency, other.latency), std::max(perByte, other.perByte)};
  }
  /// True for a link that takes no time, as that of ranks without `--link`.
  constexpr bool isFree() const { return latency == 0 && perByte == 0; }

  /// Picoseconds until one message of so many bytes has arrived.
  int64_t messageTime(uint64_t bytes) const;

  friend constexpr bool operator==(const LinkTime &,
                                   const LinkTime &) = default;
};

/// `picoseconds` as an integer; at most 2^60, which is 13 days.
int64_t wholePicoseconds(double picoseconds);
/// Nanoseconds that are not shorter.
constexpr int64_t wholeNanoseconds(int64_t picoseconds) {
  return (picoseconds + 999) / 1000;
}

} // namespace polyrank
