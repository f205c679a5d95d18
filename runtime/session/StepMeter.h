// Measures the time of a rank's step, for the log.

#pragma once

#include "runtime/exec/RankProgram.h"
#include "runtime/exec/ResidentMemory.h"
#include "runtime/report/Progress.h"

#include <chrono>

namespace polyrank::runtime {

/// Compares the counters of a rank's program and transport before and after a
/// step.
class StepMeter {
public:
  StepMeter(const RankProgram &program, const Transport &transport)
      : program(program), transport(transport) {}

  void begin() {
    start = Clock::now();
    before = read();
  }

  /// Returns the times since `begin`.
  RankStep end(uint64_t step) {
    Clock::time_point now = Clock::now();
    Counts after = read();
    // The system call takes microseconds.
    if (!looked || now - *looked >= std::chrono::milliseconds(100)) {
      looked = now;
      resident = residentBytes();
    }
    RankStep measured;
    measured.step = step;
    measured.seconds = std::chrono::duration<double>(now - start).count();
    measured.communicationSeconds =
        1e-9 * static_cast<double>(after.communication - before.communication);
    measured.computeSeconds =
        1e-9 * static_cast<double>(after.commands - before.commands) -
        measured.communicationSeconds;
    measured.waitingSeconds =
        1e-9 * static_cast<double>(after.waiting - before.waiting);
    measured.residentBytes = resident;
    return measured;
  }

private:
  using Clock = std::chrono::steady_clock;
  struct Counts {
    uint64_t commands = 0, communication = 0, waiting = 0; // nanoseconds
  };
  Counts read() const {
    Counts counts{program.times().total(), program.times().communication(), 0};
    for (const CollectiveStatistics &kind : transport.statistics())
      counts.waiting += kind.waitingNanoseconds;
    return counts;
  }

  const RankProgram &program;
  const Transport &transport;
  Clock::time_point start;
  Counts before;
  std::optional<Clock::time_point> looked;
  uint64_t resident = 0;
};

} // namespace polyrank::runtime
