// A hand-built plan of two programs: y = x V W, of which the ranks at pipe=0
// have V and those at pipe=1 W, trained as the linear model is.

#pragma once

#include "test/runtime/PlanBuilder.h"

namespace polyrank::runtime::test {

/// V is stored as [3, 3], "first.weight", and W as [4, 3], "second.weight",
/// used as [3, 4]. Samples have 3 features ("x", which the first program reads)
/// and 4 targets ("labels", which the second does).
struct PipelineModel {
  int64_t data = 1, microbatches = 4, batch = 4;
  uint32_t slots = 2;
  /// How many forwards the first program runs before its first backward.
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
/// Numbers of its groups.
enum PipelineGroups { dataGroup, pipeGroup, everyGroup };
/// The ids of what moves.
constexpr uint64_t activation = 7, gradientId = 8;

/// The metric "loss" is of both programs, summed over all ranks by a
/// collective; "rows", of the first alone, and "targets", of the second alone.
plan::PlanT pipelinePlan(const PipelineModel &model);
/// A forward plan: the output "y" of the second program.
plan::PlanT pipelineForwardPlan(const PipelineModel &model);

} // namespace polyrank::runtime::test
