// A hand-built plan with loops, for tests: a recurrent layer, forwards and
// back.

#pragma once

#include "test/runtime/PlanBuilder.h"

namespace polyrank::runtime::test {

/// Rows of 4 floats. States have one row more than there are times.
constexpr int64_t recurrentTimes = 5, recurrentWidth = 4;
constexpr uint64_t rowBytes = 4 * recurrentWidth,
                   sequenceBytes = rowBytes * recurrentTimes,
                   statesBytes = rowBytes * (recurrentTimes + 1);

/// A plan, and where in its private region loops read and write: each for all
/// microbatches, one after the other.
struct RecurrentPlan {
  plan::PlanT plan;
  uint64_t x = 0, h = 0, w = 0, y = 0, reversed = 0, g = 0;
  std::vector<float> xValues, wValues; // what x and w hold
};

/// The linear model's plan, each microbatch of which also does what a recurrent
/// layer does: h[t + 1] = x[t] - h[t], y[t] = h[t + 1] W and a copy of y from
/// its end; then, from the last time on, g[t] = y[t] - g[t + 1]. Its two loops
/// are the last commands of the segments, the first of 7000 picoseconds.
RecurrentPlan recurrentPlan(const LinearModel &model);

} // namespace polyrank::runtime::test
