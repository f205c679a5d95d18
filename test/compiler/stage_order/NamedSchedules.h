// All named schedules, for tests that hold for each.

#pragma once

#include "compiler/stage_order/Schedule.h"

#include <functional>
#include <ostream>

namespace polyrank::test {

struct NamedSchedule {
  std::string text;
  int64_t ranks, chunks, microbatches;

  friend std::ostream &operator<<(std::ostream &stream,
                                  const NamedSchedule &each) {
    return stream << each.text << ", " << each.ranks << " ranks of "
                  << each.chunks << " chunks, " << each.microbatches
                  << " microbatches";
  }
};

/// Calls `act` for 1 to `ranks` ranks, 1 to 4 chunks if the schedule supports
/// them, and 1 to `microbatches` microbatches.
inline void
forEachSchedule(int64_t ranks, int64_t microbatches,
                const std::function<void(const NamedSchedule &)> &act) {
  for (const char *text :
       {"gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v"})
    for (int64_t p = 1; p <= ranks; ++p)
      for (int64_t v = 1; v <= 4; ++v)
        for (int64_t m = 1; m <= microbatches; ++m)
          if (stage_order::getCoordinates(text, p, v))
            act({text, p, v, m});
}

} // namespace polyrank::test
