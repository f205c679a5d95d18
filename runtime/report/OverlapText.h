// The planned timeline of a step as text: what each program computes and
// communicates, and how much of it is hidden.

#pragma once

#include "runtime/plan/StepTimeline.h"

#include <string>

namespace polyrank::runtime {

/// Programs that compute and communicate equally long share their lines, which
/// then count the transfers of a rank over all its links, and say how much of
/// them is hidden in all these programs together.
std::string overlapText(const PlanTimeline &timeline);

} // namespace polyrank::runtime
