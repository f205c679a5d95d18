// What a schedule's ranks say to each other, for the checker of communication.

#pragma once

#include "compiler/stage_order/Schedule.h"
#include "runtime/progress/RankPrograms.h"

#include <utility>

namespace polyrank::stage_order {

/// Values that go from the forward of one stage to that of a later one, and
/// whose gradients come back.
using StagePair = std::pair<int64_t, int64_t>;

/// From each stage to the next, and what skips stages, each pair once; those of
/// one rank, which need no transfer, left out.
std::vector<StagePair> getTransfers(const Schedule &schedule,
                                    const std::vector<StagePair> &skips);

/// The programs of a mesh of one axis, `pipe`. What an entry needs is received
/// in front of it, what it makes is sent behind it. A value's transfers have a
/// channel of their own, with `slots` places: a send waits until the one that
/// many before it has been received.
struct SchedulePrograms {
  progress::RankPrograms programs;
  /// For which entry of its rank each command stands.
  std::vector<std::vector<int32_t>> entries;
};
SchedulePrograms makePrograms(const Schedule &schedule, int64_t slots,
                              const std::vector<StagePair> &transfers);

} // namespace polyrank::stage_order
