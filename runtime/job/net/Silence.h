// How long nothing has been heard of another machine.

#pragma once

#include <algorithm>
#include <chrono>

namespace polyrank::runtime::net {

inline constexpr std::chrono::nanoseconds pulseEvery =
    std::chrono::milliseconds(500);
/// A machine that is silent for so long is lost.
inline constexpr std::chrono::nanoseconds longestSilence =
    std::chrono::seconds(5);

/// Time in which this process itself did not run, since it was stopped or its
/// machine slept, does not count: what has come meanwhile is read first.
class Silence {
public:
  using Time = std::chrono::nanoseconds;

  explicit Silence(Time now) : last(now) {}
  /// Something has come.
  void heard(Time now) {
    lasted = {};
    last = now;
  }
  /// To be called at least every second. True once the silence is too long.
  bool isTooLong(Time now) {
    lasted += std::clamp<Time>(now - last, Time(), std::chrono::seconds(1));
    last = now;
    return lasted >= longestSilence;
  }

private:
  Time last, lasted{};
};

} // namespace polyrank::runtime::net
