// A picture of which rank holds which block of each tensor.

#pragma once

#include "runtime/plan/VerifyPlan.h"

#include <string>

namespace polyrank::runtime {

/// Returns an SVG picture with a row for each parameter, each state whose
/// layout differs from its parameter's, and each input: the global tensor, cut
/// into its blocks, and in each block the ranks that hold it. Rows that differ
/// only in layer numbers are merged. A tensor of more than two dims is drawn by
/// the two that are split most.
std::string layoutsSvg(const LoadedPlan &plan);

} // namespace polyrank::runtime
