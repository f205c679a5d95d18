// How far the monotonic clock of machine 0 is ahead of this machine's.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace polyrank::runtime::net {

/// Of 16 round trips the shortest one is taken: whatever delays a message makes
/// its round trip longer, and the error of the offset is at most half of it.
class ClockOffset {
public:
  using Time = std::chrono::nanoseconds;
  static constexpr int roundTrips = 16;
  static constexpr Time again = std::chrono::seconds(30);

  /// True if a round trip is to be made now.
  bool isDue(Time now) const {
    return !underWay && (count > 0 || !measured || now - *measured >= again);
  }
  /// A round trip has begun.
  void began() { underWay = true; }
  /// A round trip was begun at `sent` and is over at `now`, on this machine's
  /// clock; `at` is when the other machine answered, on its own.
  void add(Time sent, Time at, Time now) {
    underWay = false;
    if (now < sent)
      return;
    Time trip = now - sent;
    if (count == 0 || trip < shortest) {
      shortest = trip;
      candidate = at - (sent + trip / 2);
    }
    if (++count < roundTrips)
      return;
    count = 0;
    measured = now;
    offset = candidate;
  }

  /// To be added to a time of this machine; 0 until it is measured.
  Time get() const { return offset; }
  bool isKnown() const { return measured.has_value(); }

private:
  bool underWay = false;
  int count = 0;
  Time shortest{}, candidate{}, offset{};
  std::optional<Time> measured;
};

} // namespace polyrank::runtime::net
