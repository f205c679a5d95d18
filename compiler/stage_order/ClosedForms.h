// What schedules take and hold, by formula: docs/schedules.md derives them.

#pragma once

#include "compiler/stage_order/Schedule.h"

#include <optional>

namespace polyrank::stage_order {

/// Where every forward takes 1 and every backward 2, of which each part takes 1
/// where they are apart, and neither transfers nor updates take any time. With
/// P ranks, V chunks and m microbatches.
struct ClosedForm {
  int64_t makespan = 0;
  /// From one step to the next where no update waits for all.
  int64_t period = 0;
  /// Of every rank: what it does nothing in, of the makespan.
  int64_t bubble = 0;
  std::vector<int64_t> held; // Peaks::ofRanks
};

/// A step of training with one of the schedules that have a name. Nothing for a
/// file, and for sizes that makeSchedule does not take.
std::optional<ClosedForm> getClosedForm(std::string_view text, int64_t ranks,
                                        int64_t chunks, int64_t microbatches);

} // namespace polyrank::stage_order
