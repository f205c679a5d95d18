// Where the time of a step goes, by what the commands do.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// The time of each command of a program. A command of a microbatched segment
/// counts all its microbatches of a step together.
class Profile {
public:
  explicit Profile(const plan::Program &program);

  void add(uint32_t segment, size_t command, uint64_t nanoseconds) {
    Entry &entry = segments[segment][command];
    entry.step += nanoseconds;
    ++entry.count;
  }
  void endStep();

  /// Commands that are the same kernel, product or collective make one line,
  /// the longest first: the least time over the steps (the first, which touches
  /// memory for the first time, is left out of several), its share of the step,
  /// how often it runs, its rate, and where in the model it comes from.
  std::string table(const plan::Plan &plan) const;

private:
  struct Entry {
    uint64_t step = 0, least = ~uint64_t(0), count = 0;
  };

  const plan::Program &program;
  uint64_t steps = 0;
  std::vector<std::vector<Entry>> segments;
};

} // namespace polyrank::runtime
