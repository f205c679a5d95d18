// A hand-built plan of two programs: y = x V W, where the ranks at pipe=0 have
// V and those at pipe=1 have W, trained like the linear model.

#pragma once

#include "test/runtime/PlanBuilder.h"

namespace polyrank::runtime::test {

/// V is stored as [3, 3], "first.weight", and W as [4, 3], "second.weight",
/// used as [3, 4]. Samples have 3 features ("x", which the first program reads)
/// and 4 targets ("labels", which the second does).
struct PipelineModel {
  int64_t data = 1, microbatches = 4, batch = 4;
  uint32_t slots = 2;
  /// The number of forwards of the first program before its first backward.
  int64_t warmUp = 2;
  std::string weights; // a file with 9 and 12 floats at byte 16
};

/// Segments of the first program; those of the second are `Segments`.
enum FirstSegments {
  forwardSegment,
  firstBackwardSegment,
  nextBackwardSegment,
  descentSegment
};
/// The numbers of the plan's groups.
enum PipelineGroups { dataGroup, pipeGroup, everyGroup };
/// The ids of the values that move.
constexpr uint64_t activation = 7, gradientId = 8;

/// The metric "loss" is in both programs, summed over all ranks by a
/// collective; "rows" is only in the first and "targets" only in the second.
plan::PlanT pipelinePlan(const PipelineModel &model);
/// A forward plan: the output "y" of the second program.
plan::PlanT pipelineForwardPlan(const PipelineModel &model);

} // namespace polyrank::runtime::test
