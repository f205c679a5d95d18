// Simulates when a rank computes and communicates. The compiler orders commands
// by this clock, and reports and pictures of a plan use it.
//
// A rank has one queue for computation and others for communication (Queues.h).
// Each queue runs one operation after another. A started collective leaves the
// compute queue free until its wait.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace polyrank::runtime {

class QueueClock {
public:
  /// An interval in the caller's time unit.
  struct Interval {
    int64_t start = 0, end = 0;
  };

  /// The current time of the compute queue.
  int64_t now() const { return time; }

  Interval compute(int64_t duration) {
    Interval interval{time, time + duration};
    time = interval.end;
    return interval;
  }

  /// Starts a collective on a communication queue, where it runs once the
  /// earlier ones have ended.
  Interval start(uint32_t queue, int64_t duration) {
    int64_t &freeFrom = queues[queue];
    Interval interval{std::max(freeFrom, time)};
    freeFrom = interval.end = interval.start + duration;
    return interval;
  }

  /// Lets the compute queue wait until `interval` has ended. Returns how long
  /// it stalled.
  int64_t wait(const Interval &interval) {
    int64_t before = time;
    time = std::max(time, interval.end);
    return time - before;
  }

  /// Repeats what was done since `begin`, so that it runs `times` times in all.
  /// Nothing may be in flight at its end.
  void repeat(int64_t begin, int64_t times) {
    time = begin + times * (time - begin);
  }

private:
  int64_t time = 0;
  std::map<uint32_t, int64_t> queues; // when each is free
};

} // namespace polyrank::runtime
