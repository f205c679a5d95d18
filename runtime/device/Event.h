// The points in time by which devices and communicators order their work.

#pragma once

#include "support/Result.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// What a device or a communicator that works in the background keeps of one of
/// its events (CUDA: a CUevent). All calls may be made by any thread.
class Signal {
public:
  virtual ~Signal() = default;
  /// Does not wait.
  virtual bool isOver() const = 0;
  /// Returns once the event is over, with the first error of everything that
  /// its owner had run up to then.
  virtual Result<void> wait() const = 0;
  /// When the event was over, in nanoseconds of CLOCK_MONOTONIC as its owner
  /// has measured it. Called once it is over.
  virtual int64_t time() const = 0;
};

/// A point in the work of a device or a communicator: it is over when
/// everything up to it is done. Both share this type, so that each can begin
/// after what the other one does. What works on return gives events that are
/// over from the start.
class Event {
public:
  /// Is over, at a time that does not matter.
  Event() = default;
  /// Was over at this time, in nanoseconds of CLOCK_MONOTONIC.
  static Event over(int64_t time) {
    Event event;
    event.ended = time;
    return event;
  }
  explicit Event(std::shared_ptr<const Signal> signal)
      : signal(std::move(signal)) {}

  /// True if the work was done when the call that gave this returned.
  bool wasOver() const { return !signal; }
  bool isOver() const { return !signal || signal->isOver(); }
  /// Lets the host wait, and returns the first error up to then.
  Result<void> wait() const { return signal ? signal->wait() : Result<void>(); }
  /// When it was over, in nanoseconds of CLOCK_MONOTONIC. Called once it is.
  int64_t time() const { return signal ? signal->time() : ended; }
  /// For those that share a kind of signals; null if it was over on return.
  const std::shared_ptr<const Signal> &getSignal() const { return signal; }

private:
  std::shared_ptr<const Signal> signal;
  int64_t ended = 0;
};

/// Events of which all must be over before something begins.
using Events = std::span<const Event>;

/// The time between two events that are over, in nanoseconds.
inline int64_t interval(const Event &from, const Event &to) {
  return to.time() - from.time();
}

/// The events after which the next command of a program begins. Those that were
/// over on return are only a time.
class EventSet {
public:
  void add(const Event &event) {
    if (event.wasOver())
      latest = std::max(latest, event.time());
    else
      events.push_back(event);
  }
  /// For an event that comes after all the others.
  void replace(const Event &event) {
    events.clear();
    add(event);
  }
  operator Events() const { return events; }

  /// True if all of them were over on return.
  bool wereOver() const { return events.empty(); }
  bool isOver() const {
    return std::all_of(events.begin(), events.end(),
                       [](const Event &event) { return event.isOver(); });
  }
  /// Lets the host wait for all of them, and returns the first error.
  Result<void> wait() const {
    for (const Event &event : events)
      if (Result<void> over = event.wait(); !over)
        return over;
    return {};
  }
  /// When the last of them was over. Called once all are.
  int64_t time() const {
    int64_t last = latest;
    for (const Event &event : events)
      last = std::max(last, event.time());
    return last;
  }

private:
  std::vector<Event> events;
  int64_t latest = 0;
};

/// The current time, in nanoseconds of CLOCK_MONOTONIC.
inline int64_t eventClock() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

} // namespace polyrank::runtime
