// When a rank computes and communicates: the clock that the compiler schedules
// by, and that reports and pictures of a plan use.
//
// A rank has one queue for what it computes and one for each group in which it
// communicates. Each runs one thing after another. A collective that is started
// leaves the computing queue free until somebody waits for it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace polyrank::runtime {

class QueueClock {
public:
  /// Of time units that the caller knows.
  struct Interval {
    int64_t start = 0, end = 0;
  };

  /// Of the computing queue.
  int64_t now() const { return time; }

  Interval compute(int64_t duration) {
    Interval interval{time, time + duration};
    time = interval.end;
    return interval;
  }

  /// A collective in the group of this number is started, and runs when those
  /// before it have ended.
  Interval start(uint64_t group, int64_t duration) {
    int64_t &freeFrom = queues[group];
    Interval interval{std::max(freeFrom, time)};
    freeFrom = interval.end = interval.start + duration;
    return interval;
  }

  /// The computing queue goes on when what `interval` is of has ended. Returns
  /// how long it stood.
  int64_t wait(const Interval &interval) {
    int64_t before = time;
    time = std::max(time, interval.end);
    return time - before;
  }

  /// What was done since `begin` is done `times` times, when nothing is in
  /// flight at its end.
  void repeat(int64_t begin, int64_t times) {
    time = begin + times * (time - begin);
  }

private:
  int64_t time = 0;
  std::map<uint64_t, int64_t> queues;
};

} // namespace polyrank::runtime
