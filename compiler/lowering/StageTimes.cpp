// Adds up the segments of each stage.

#include "compiler/lowering/StageTimes.h"

#include "compiler/overlap/Timeline.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Programs.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

/// Adds a segment, which is one part of one stage. A later one of the same part
/// replaces it.
static void add(rank::SegmentOp segment, const overlap::Durations &durations,
                std::vector<StageTime> &stages) {
  std::optional<int64_t> stage;
  bool isForward = true;
  for (Operation &op : segment.getBody().front())
    if ((stage = graph::getStage(&op))) {
      isForward = graph::getMarkedPhase(&op).value_or(graph::Phase::Forward) ==
                  graph::Phase::Forward;
      break;
    }
  if (!stage)
    return;
  StageTime &of = stages[*stage];
  int64_t &part = isForward                                  ? of.forward
                  : segment.getName().starts_with("weights") ? of.weights
                                                             : of.backward;
  part = overlap::simulate(segment.getBody().front(), durations).makespan;
}

FailureOr<std::vector<StageTime>>
polyrank::lowering::getStageTimes(ModuleOp module) {
  std::vector<StageTime> stages(pipeline::getStages(module)->getNumStages());
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(rank::placeAttrName))
      continue;
    auto durations = overlap::Durations::of(function);
    if (failed(durations))
      return failure();
    for (auto loop : function.getOps<rank::MicrobatchesOp>())
      for (rank::SegmentOp segment : loop.getSegments())
        add(segment, *durations, stages);
  }
  return stages;
}
