// Closed forms of the time and memory of schedules; docs/schedules.md derives
// them.

#pragma once

#include "compiler/stage_order/Schedule.h"

#include <optional>

namespace polyrank::stage_order {

/// The costs of a schedule with P ranks, V chunks and m microbatches when every
/// forward takes 1 and every backward 2 (1 for each part if it is split), and
/// transfers and updates take no time.
struct ClosedForm {
  int64_t makespan = 0;
  /// The time from one step to the next if no update waits for all ranks.
  int64_t period = 0;
  /// The part of the makespan in which a rank is idle; the same for all ranks.
  int64_t bubble = 0;
  std::vector<int64_t> held; // Peaks::ofRanks
};

/// The closed form of a training step with a named schedule. Returns nullopt
/// for a `file:` schedule, and for sizes that makeSchedule rejects.
std::optional<ClosedForm> getClosedForm(std::string_view text, int64_t ranks,
                                        int64_t chunks, int64_t microbatches);

} // namespace polyrank::stage_order
