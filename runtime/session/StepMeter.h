// Measures the time of a rank's step, for the log.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/exec/ResidentMemory.h"
#include "runtime/exec/StepRecord.h"
#include "runtime/report/Progress.h"

#include <chrono>
#include <optional>

namespace polyrank::runtime {

/// Adds to the times of a step what the rank waited for others, by the counters
/// of its communicator, and the memory that it uses.
class StepMeter {
public:
  explicit StepMeter(const Communicator &communicator)
      : communicator(communicator) {}

  /// Returns the times of a step that is over and took `seconds` in all,
  /// `times` of them in commands. Called once for each step, in their order.
  RankStep end(uint64_t step, double seconds, const CommandTimes &times) {
    Clock::time_point now = Clock::now();
    // The system call takes microseconds.
    if (!looked || now - *looked >= std::chrono::milliseconds(100)) {
      looked = now;
      resident = residentBytes();
    }
    RankStep measured;
    measured.step = step;
    measured.seconds = seconds;
    measured.communicationSeconds =
        1e-9 * static_cast<double>(times.communication());
    measured.computeSeconds = 1e-9 * static_cast<double>(times.total()) -
                              measured.communicationSeconds;
    uint64_t before = waited;
    waited = readWaited();
    measured.waitingSeconds = 1e-9 * static_cast<double>(waited - before);
    measured.residentBytes = resident;
    return measured;
  }

private:
  using Clock = std::chrono::steady_clock;
  uint64_t readWaited() const {
    uint64_t sum = 0; // nanoseconds
    for (const CollectiveStatistics &kind : communicator.statistics())
      sum += kind.waitingNanoseconds;
    return sum;
  }

  const Communicator &communicator;
  uint64_t waited = readWaited();
  std::optional<Clock::time_point> looked;
  uint64_t resident = 0;
};

} // namespace polyrank::runtime
