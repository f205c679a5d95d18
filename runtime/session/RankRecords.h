// What a rank writes and reports of itself: profile, trace, and use.

#pragma once

#include "runtime/exec/Trace.h"
#include "runtime/session/LoadedRank.h"

#include <optional>

namespace polyrank::runtime {

/// All ranks make the same calls in the same order.
class RankRecords {
public:
  explicit RankRecords(LoadedRank &rank) : rank(rank) {}

  /// Measures the rates for the profile's floors. All ranks measure at the same
  /// time, as they also compute at the same time. The load by other processes
  /// varies, so the best of several measurements counts.
  Result<void> measureRates();
  /// Records the steps from now on, as far as the session asks for it.
  void start();
  /// Writes the trace of `steps` steps, then the profile, and reports.
  Result<void> write(uint64_t steps);
  /// Reports the memory, time and bytes that the rank has used.
  void reportUse() const;

private:
  /// Ranks write one after another, each from the end of the file on.
  Result<void> writeTrace(uint64_t steps);
  /// Writes this rank's part of the trace.
  Result<void> appendTrace();
  Result<void> writeProfile() const;

  LoadedRank &rank;
  DeviceRates rates;
  std::optional<Trace> trace;
};

} // namespace polyrank::runtime
