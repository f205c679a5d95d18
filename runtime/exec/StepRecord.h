// What a step has issued, and what it took once it is over.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/plan/plan_generated.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace polyrank::runtime {

inline constexpr int numCommandKinds = int(plan::CommandBody::MAX) + 1;

/// The time and the number of executed commands, by plan::CommandBody.
struct CommandTimes {
  std::array<uint64_t, numCommandKinds> nanoseconds{}, counts{};

  uint64_t total() const;
  /// The time in collectives, waits, sends and receives.
  uint64_t communication() const;
  /// Communication's share of the time in commands, 0 to 1.
  double communicationShare() const;

  CommandTimes &operator+=(const CommandTimes &other);
};

/// When the host waited for the inputs of a step, in nanoseconds of
/// CLOCK_MONOTONIC; both are 0 if the run has no samples.
struct InputWait {
  int64_t begin = 0, end = 0;

  int64_t length() const { return end - begin; }
};

/// What a step took. The rest is valid once it is over.
struct StepRun {
  uint64_t step = 0;
  bool isOver = false;
  int64_t begin = 0, end = 0; // in nanoseconds of CLOCK_MONOTONIC
  CommandTimes times;
  /// The wait for its inputs that the step before it did not hide.
  InputWait inputs;

  double seconds() const { return 1e-9 * static_cast<double>(end - begin); }
  double dataSeconds() const {
    return 1e-9 * static_cast<double>(inputs.length());
  }
};

/// The commands of a step in the order in which they were issued, each with the
/// event of its end. A command takes the time from the end of all before it to
/// its own; one that ends earlier takes none.
struct StepRecord {
  /// A command of the schedule's `action`; in a loop, its command `nested`.
  struct Place {
    uint32_t action = 0, command = 0;
    int32_t nested = -1;
  };
  struct Entry {
    Place place;
    plan::CommandBody kind;
    int32_t arrival; // -1: none
    Event end;
  };

  int64_t issued = 0; // when the host began with it
  InputWait inputs;   // of the host, before that
  EventSet before;    // after which it began
  EventSet after;     // that are over when it is
  std::vector<Entry> entries;
  std::vector<Arrival> arrivals; // if they are traced
  std::shared_ptr<StepRun> run;

  void add(const Place &place, plan::CommandBody kind, const Event &end,
           const Arrival *arrival = nullptr) {
    entries.push_back({place, kind, -1, end});
    if (!arrival)
      return;
    entries.back().arrival = static_cast<int32_t>(arrivals.size());
    arrivals.push_back(*arrival);
  }
};

} // namespace polyrank::runtime
