// report-pipeline: reports the time of a pipeline step under its schedule, and
// the microbatches held.

#include "compiler/lowering/Passes.h"
#include "compiler/lowering/PipelineSchedule.h"
#include "compiler/overlap/Timeline.h"
#include "compiler/stage_order/Simulate.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Programs.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_REPORTPIPELINE
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {
/// Collects the times of a pipeline's functions for the simulation of its
/// schedule.
class StageClock {
public:
  explicit StageClock(const pipeline::Stages &stages) {
    times.stages.resize(stages.getNumStages());
    times.updates.resize(1 + *llvm::max_element(stages.coordinates));
  }

  void add(func::FuncOp function, int64_t coordinate,
           const overlap::Durations &durations);
  stage_order::Times take();
  int64_t getMicrobatches() const { return microbatches; }

private:
  struct Moved {
    int64_t from = -1, to = -1, time = 0, slots = 0;
  };
  void add(rank::SegmentOp segment, const overlap::Durations &durations);

  stage_order::Times times;
  std::map<uint64_t, Moved> moved; // by id
  int64_t microbatches = 0;
};
} // namespace

/// Adds a segment, which is one part of one stage. If one segment starts sums
/// and another adds to them, the latter, which comes after it, counts.
void StageClock::add(rank::SegmentOp segment,
                     const overlap::Durations &durations) {
  std::optional<int64_t> stage;
  bool isBackward = false;
  int64_t time = 0;
  for (Operation &op : segment.getBody().front()) {
    time += durations.get(&op);
    if (std::optional<int64_t> of = graph::getStage(&op); of && !stage) {
      stage = of;
      isBackward = graph::getMarkedPhase(&op).value_or(graph::Phase::Forward) !=
                   graph::Phase::Forward;
    }
    if (auto send = dyn_cast<rank::SendOp>(op)) {
      Moved &move = moved[send.getId()];
      move.from = graph::getStage(send).value_or(0);
      move.time = durations.getArrival(send);
      move.slots = send.getSlots();
    } else if (auto recv = dyn_cast<rank::RecvOp>(op)) {
      moved[recv.getId()].to = graph::getStage(recv).value_or(0);
    }
  }
  if (!stage)
    return;
  stage_order::StageTimes &ofStage = times.stages[*stage];
  if (!isBackward)
    ofStage.forward = time;
  else if (segment.getName().starts_with("weights"))
    ofStage.backwardWeight = time;
  else
    ofStage.backwardInput = time;
}

void StageClock::add(func::FuncOp function, int64_t coordinate,
                     const overlap::Durations &durations) {
  for (auto [stage, ofStage] : llvm::enumerate(times.stages))
    if (ofStage.forward == 1) // nothing is known of it yet
      ofStage = {0, 0, 0};
  for (Operation &op : function.getBody().front()) {
    if (auto loop = dyn_cast<rank::MicrobatchesOp>(op)) {
      microbatches = loop.getCount();
      for (rank::SegmentOp segment : loop.getSegments())
        add(segment, durations);
    }
    if (graph::getMarkedPhase(&op) != graph::Phase::Update)
      continue;
    times.updates[coordinate] += durations.get(&op);
    auto collective = dyn_cast<rank::CollectiveOp>(op);
    times.waitsForAll |= collective && rank::spansPrograms(collective);
  }
}

stage_order::Times StageClock::take() {
  std::map<std::pair<int64_t, int64_t>, stage_order::TransferTimes> pairs;
  for (const auto &[id, move] : moved) {
    if (move.from < 0 || move.to < 0)
      continue;
    bool isForward = move.from < move.to;
    auto [first, second] = std::minmax(move.from, move.to);
    stage_order::TransferTimes &pair = pairs[{first, second}];
    pair.from = first;
    pair.to = second;
    (isForward ? pair.forward : pair.backward) += move.time;
    times.slots = std::max(times.slots, move.slots);
  }
  for (const auto &[stages, pair] : pairs)
    times.transfers.push_back(pair);
  return times;
}

static std::string inMilliseconds(int64_t picoseconds) {
  return llvm::formatv("{0:F2} ms", 1e-9 * static_cast<double>(picoseconds));
}

static std::string describe(StringRef text,
                            const stage_order::Schedule &schedule,
                            const stage_order::Times &times,
                            const stage_order::Simulation &simulation) {
  int64_t bound = std::max<int64_t>(simulation.lowerBound, 1);
  std::string said =
      llvm::formatv("schedule {0} of {1} stages and {2} microbatches: a step "
                    "takes {3} by the "
                    "model, at least {4} are needed (gap {5:F1} %)",
                    text, schedule.coordinates.size(), schedule.microbatches,
                    inMilliseconds(simulation.makespan), inMilliseconds(bound),
                    100.0 * static_cast<double>(simulation.makespan - bound) /
                        static_cast<double>(bound));
  if (times.waitsForAll) {
    stage_order::Times alone = times;
    alone.waitsForAll = false;
    auto free = stage_order::simulate(schedule, alone);
    if (free && free->period < simulation.period)
      said += llvm::formatv("; if no update waited for a number of all stages, "
                            "as that of clipping, one step would follow the "
                            "other after {0}",
                            inMilliseconds(free->period));
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    said += llvm::formatv(
        "\n  coordinate {0} stands {1:F1} % of it and holds up to {2} "
        "microbatch{3}",
        rank, 100 * simulation.bubbles[rank], simulation.peaks.ofRanks[rank],
        simulation.peaks.ofRanks[rank] == 1 ? "" : "es");
  return said;
}

namespace {
struct ReportPipelinePass
    : lowering::impl::ReportPipelineBase<ReportPipelinePass> {
  using ReportPipelineBase::ReportPipelineBase;

  void runOnOperation() override {
    if (failed(report()))
      signalPassFailure();
  }

private:
  LogicalResult report() {
    ModuleOp module = getOperation();
    std::optional<pipeline::Stages> stages = pipeline::getStages(module);
    if (!stages)
      return success();
    StageClock clock(*stages);
    for (auto function : module.getOps<func::FuncOp>()) {
      auto at = function->getAttrOfType<DictionaryAttr>(rank::placeAttrName);
      if (!at)
        continue;
      auto durations = overlap::Durations::of(function);
      if (failed(durations))
        return failure();
      clock.add(function, at.getAs<IntegerAttr>(stages->axis).getInt(),
                *durations);
    }
    if (clock.getMicrobatches() == 0) // one, whose stages run one by one
      return success();
    FailureOr<stage_order::Schedule> schedule =
        getSchedule(module, clock.getMicrobatches());
    if (failed(schedule))
      return failure();
    stage_order::Times times = clock.take();
    auto simulation = stage_order::simulate(*schedule, times);
    if (!simulation)
      return module.emitError("--schedule: ") << simulation.error().message;
    auto text = module->getAttrOfType<StringAttr>(pipeline::scheduleAttrName);
    module.emitRemark() << describe(text ? text.getValue() : "1f1b", *schedule,
                                    times, *simulation);
    return success();
  }
};
} // namespace
