// Decides whether and when a failed job is started again.

#pragma once

#include "support/Result.h"

#include <chrono>
#include <cstdint>
#include <optional>

namespace polyrank::runtime {

/// How far one attempt to run a job got, and why it ended.
struct Attempt {
  uint64_t steps = 0; // steps done in this attempt
  /// The last step before the failure, counted from the job's first.
  uint64_t lastStep = 0;
  bool inStep = true; // it failed in a step, not while loading
  /// Another process or the machine ended it, so that the failure says nothing
  /// about the step.
  bool fromOutside = false;
};

/// Restarts a job only after failures that may not recur: a rank that failed,
/// or ranks that hang. Pauses grow from one second to a minute: 1, 2, 4 .. 60.
/// Restarting ends when the restarts are used up, or when another one would
/// likely fail as well: the ranks have failed a second time in the same step,
/// or three attempts in a row have done no step or ended in the same step.
class Restarts {
public:
  explicit Restarts(uint32_t most) : most(most) {}

  /// Called after a failed attempt. Returns the pause before the next one, or
  /// as an error why there is none.
  Result<std::chrono::seconds> after(const Error &error,
                                     const Attempt &attempt);
  /// The number of restarts so far.
  uint32_t count() const { return used; }

private:
  uint32_t most, used = 0;
  uint32_t withoutStep = 0, inSameStep = 0; // attempts in a row
  std::optional<uint64_t> before;           // lastStep of the previous attempt
  std::optional<uint64_t> brokenAfter; // lastStep at the ranks' own failure
};

} // namespace polyrank::runtime
