// Schedules as text, for `--schedule file:PATH`.
//
//     # 1F1B of two ranks and three microbatches
//     F0 F1 B0 F2 B1 B2        # rank 0
//     F0 B0 F1 B1 F2 B2        # rank 1
//
// One line for each rank of the pipe axis, in order. An entry is a part, the
// chunk of the rank and a dot where that is not 0, and the microbatch: `F3` is
// `F0.3`. F is a forward, B a backward. In a schedule with W, B is the gradient
// of what the stage got, and W the gradients of its weights.
//
// A line `stages 0 1 1 0` in front says on which rank each stage lives; without
// it rank r has the stages r, P + r, 2P + r, ... From `#` to the end of its
// line is for people. Empty lines say nothing.

#pragma once

#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// The longest text that is read, in bytes.
inline constexpr uint64_t longestText = uint64_t(1) << 27;

/// Reads what any file may hold. Says only that it is a schedule, with chunks
/// that its ranks have: checkSchedule says whether it is a good one. Errors
/// name `path`, the line and the entry.
Result<Schedule> readSchedule(std::string_view text, const std::string &path);
Result<Schedule> readScheduleFile(const std::string &path);

/// The text from which the same schedule is read.
std::string writeSchedule(const Schedule &schedule);

} // namespace polyrank::stage_order
