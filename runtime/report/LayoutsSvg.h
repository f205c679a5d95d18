// Which rank holds what, as a picture.

#pragma once

#include "runtime/plan/VerifyPlan.h"

#include <string>

namespace polyrank::runtime {

/// A row for each parameter, for each state that is laid out otherwise than its
/// parameter, and for each input: the global tensor, cut into its blocks, and
/// in each block the ranks that hold it. Rows that differ in the numbers of
/// layers only are one. A tensor of more than two dims is drawn by the two that
/// are split most. The text of an SVG file.
std::string layoutsSvg(const LoadedPlan &plan);

} // namespace polyrank::runtime
