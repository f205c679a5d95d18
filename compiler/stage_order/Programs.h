// The communication of a schedule's ranks as programs, for the checker in
// runtime/progress.

#pragma once

#include "compiler/stage_order/Schedule.h"
#include "runtime/progress/RankPrograms.h"

#include <utility>

namespace polyrank::stage_order {

/// Two stages: values go from the forward of the first to the forward of the
/// second, a later one, and their gradients come back.
using StagePair = std::pair<int64_t, int64_t>;

/// The pairs of adjacent stages and the pairs of `skips`, each once. Pairs
/// whose stages are on one rank need no transfer and are left out.
std::vector<StagePair> getTransfers(const Schedule &schedule,
                                    const std::vector<StagePair> &skips);

/// The programs of a mesh with one axis, `pipe`. An entry's operands are
/// received before it, its results are sent after it. Each transfer has a
/// channel of its own with `slots` places: send i waits until send i - `slots`
/// has been received.
struct SchedulePrograms {
  progress::RankPrograms programs;
  /// By program and command: the entry of the rank that the command belongs to.
  std::vector<std::vector<int32_t>> entries;
};
SchedulePrograms makePrograms(const Schedule &schedule, int64_t slots,
                              const std::vector<StagePair> &transfers);

} // namespace polyrank::stage_order
