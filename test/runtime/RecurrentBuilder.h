// A hand-built plan with loops, for tests: a recurrent layer, forward and
// backward.

#pragma once

#include "test/runtime/PlanBuilder.h"

namespace polyrank::runtime::test {

/// Rows have 4 floats. States have one row more than there are time steps.
constexpr int64_t recurrentTimes = 5, recurrentWidth = 4;
constexpr uint64_t rowBytes = 4 * recurrentWidth,
                   sequenceBytes = rowBytes * recurrentTimes,
                   statesBytes = rowBytes * (recurrentTimes + 1);

/// A plan, and the offsets in its private region that loops read and write,
/// each for all microbatches, one after another.
struct RecurrentPlan {
  plan::PlanT plan;
  uint64_t x = 0, h = 0, w = 0, y = 0, reversed = 0, g = 0;
  std::vector<float> xValues, wValues; // what x and w hold
};

/// The linear model's plan, in which each microbatch also computes a recurrent
/// layer: h[t + 1] = x[t] - h[t], y[t] = h[t + 1] W and a reversed copy of y;
/// then, from the last time step on, g[t] = y[t] - g[t + 1]. Its two loops are
/// the last commands of the segments, the first of 7000 picoseconds.
RecurrentPlan recurrentPlan(const LinearModel &model);

} // namespace polyrank::runtime::test
