// Whether a job that failed is started again, and when.

#pragma once

#include "support/Result.h"

#include <chrono>
#include <cstdint>
#include <optional>

namespace polyrank::runtime {

/// How far one attempt to run a job came, and why it ended.
struct Attempt {
  uint64_t steps = 0; // that it has done
  uint64_t lastStep =
      0;              // before the one in which it failed, from the job's 1st
  bool inStep = true; // it failed in a step, not while it loaded
  /// Another process, or the machine, ended it: it says nothing about the step.
  bool fromOutside = false;
};

/// Only what may go better the next time is tried again: a rank that failed, or
/// ranks that hang. Pauses grow from one second to a minute: 1, 2, 4 .. 60. It
/// ends when the restarts are used up, and where another one would fail as
/// well: the ranks have made a second failure in the same step, or three
/// attempts in a row have done no step, or ended in the same one.
class Restarts {
public:
  explicit Restarts(uint32_t most) : most(most) {}

  /// After an attempt has failed: how long to pause before the next one, or why
  /// there is none.
  Result<std::chrono::seconds> after(const Error &error,
                                     const Attempt &attempt);
  /// How many there were so far.
  uint32_t count() const { return used; }

private:
  uint32_t most, used = 0;
  uint32_t withoutStep = 0, inSameStep = 0; // attempts in a row
  std::optional<uint64_t> before;           // lastStep of the attempt before
  std::optional<uint64_t> brokenAfter;      // that of the ranks' own failure
};

} // namespace polyrank::runtime
