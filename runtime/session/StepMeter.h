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

  /// Returns the times of a step that is over and took `seconds` in all, `run`
  /// of them in commands and waits for samples, and `agreed` in agreeing with
  /// other ranks that all have theirs. Called once for each step, in their
  /// order.
  RankStep end(uint64_t step, double seconds, const StepRun &run,
               double agreed) {
    Clock::time_point now = Clock::now();
    // The system call takes microseconds.
    if (!looked || now - *looked >= std::chrono::milliseconds(100)) {
      looked = now;
      resident = residentBytes();
    }
    RankStep measured;
    measured.step = step;
    measured.seconds = seconds;
    double inCommands = 1e-9 * static_cast<double>(run.times.communication());
    measured.communicationSeconds = inCommands + agreed;
    measured.computeSeconds =
        1e-9 * static_cast<double>(run.times.total()) - inCommands;
    measured.dataSeconds = run.dataSeconds();
    uint64_t before = waited;
    waited = readWaited();
    measured.waitingSeconds =
        1e-9 * static_cast<double>(waited - before) + agreed;
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
