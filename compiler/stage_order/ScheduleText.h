// Schedules as text, for `--schedule file:PATH`.
//
//     # 1F1B of two ranks and three microbatches
//     F0 F1 B0 F2 B1 B2        # rank 0
//     F0 B0 F1 B1 F2 B2        # rank 1
//
// The text has one line for each rank of the pipe axis, in order. An entry is a
// letter for the part, the chunk of the rank and a dot if the chunk is not 0,
// and the microbatch: `F3` is `F0.3`. F is a forward, B a backward. In a
// schedule with W, B is the gradient of the stage's input, and W the gradients
// of its weights.
//
// A first line `stages 0 1 1 0` states the rank of each stage; without it rank
// r has the stages r, P + r, 2P + r, ... A `#` begins a comment that ends with
// the line. Empty lines are ignored.

#pragma once

#include "compiler/stage_order/Schedule.h"

namespace polyrank::stage_order {

/// The longest text that is read, in bytes.
inline constexpr uint64_t longestText = uint64_t(1) << 27;

/// Parses untrusted text. Checks only that it is a schedule whose entries name
/// chunks that their ranks have; checkSchedule checks the rest. Errors name
/// `path`, the line and the entry.
Result<Schedule> readSchedule(std::string_view text, const std::string &path);
Result<Schedule> readScheduleFile(const std::string &path);

/// Returns a text from which readSchedule reads the same schedule.
std::string writeSchedule(const Schedule &schedule);

} // namespace polyrank::stage_order
