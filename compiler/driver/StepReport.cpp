// Says what the plan's timeline says, in the words of schedules and stages.

#include "compiler/driver/StepReport.h"

#include "compiler/lowering/PipelineSchedule.h"
#include "compiler/lowering/StageTimes.h"
#include "compiler/stage_order/Peaks.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Programs.h"
#include "support/Places.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

static std::string inMilliseconds(int64_t picoseconds) {
  return llvm::formatv("{0:F2} ms", 1e-9 * static_cast<double>(picoseconds));
}

static int64_t countMicrobatches(ModuleOp module) {
  int64_t count = 0;
  module.walk([&](rank::MicrobatchesOp loop) { count = loop.getCount(); });
  return count;
}

/// "pipe=0 to 2: idle for 10.0 %, holds up to 3 microbatches", of the
/// coordinates that are alike.
static std::vector<std::string>
describeCoordinates(const stage_order::Schedule &schedule,
                    const runtime::PlanTimeline &timeline, StringRef axis) {
  std::vector<int64_t> held = stage_order::getPeaks(schedule).ofRanks;
  llvm::MapVector<StringRef, std::vector<std::string>> places; // by text
  std::vector<std::string> texts;
  for (size_t number = 0; number < timeline.programs.size(); ++number)
    texts.push_back(
        llvm::formatv("idle for {0:F1} % of it, holds up to {1} microbatch{2}",
                      100 * timeline.bubble(number), held[number],
                      held[number] == 1 ? "" : "es"));
  for (auto [number, text] : llvm::enumerate(texts))
    places[text].push_back(axis.str() + "=" + std::to_string(number));
  std::vector<std::string> lines;
  for (const auto &[text, alike] : places)
    lines.push_back(joinPlaces(alike) + ": " + text.str());
  return lines;
}

LogicalResult
polyrank::driver::reportStep(ModuleOp module,
                             const runtime::PlanTimeline &timeline) {
  std::optional<pipeline::Stages> stages = pipeline::getStages(module);
  int64_t microbatches = countMicrobatches(module);
  if (!stages || microbatches == 0) // one microbatch: stages run one by one
    return success();
  FailureOr<stage_order::Schedule> schedule =
      lowering::getSchedule(module, microbatches);
  FailureOr<std::vector<lowering::StageTime>> times =
      lowering::getStageTimes(module);
  if (failed(schedule) || failed(times))
    return failure();
  int64_t slowest = 0;
  for (auto [stage, time] : llvm::enumerate(*times))
    if (time.getSum() > (*times)[slowest].getSum())
      slowest = static_cast<int64_t>(stage);
  auto text = module->getAttrOfType<StringAttr>(pipeline::scheduleAttrName);
  int64_t bound = std::max<int64_t>(timeline.lowerBound, 1);
  InFlightDiagnostic remark = emitRemark(module.getLoc());
  remark << "schedule " << (text ? text.getValue() : StringRef("1f1b"))
         << " of " << stages->getNumStages() << " stages and " << microbatches
         << " microbatches: a step takes " << inMilliseconds(timeline.makespan)
         << " by the model, at least " << inMilliseconds(bound)
         << " are needed (gap "
         << llvm::formatv("{0:F1}",
                          100.0 *
                              static_cast<double>(timeline.makespan - bound) /
                              static_cast<double>(bound))
                .str()
         << " %); stage " << slowest << ", the slowest, takes "
         << inMilliseconds((*times)[slowest].getSum()) << " a microbatch";
  for (const std::string &line :
       describeCoordinates(*schedule, timeline, stages->axis))
    remark.attachNote() << line;
  return success();
}
