// The schedule of a module's pipeline.

#include "compiler/lowering/PipelineSchedule.h"

#include "compiler/stage_order/Slots.h"
#include "dialects/pipeline/Pipeline.h"
#include "llvm/Support/InterleavedRange.h"

#include <set>

using namespace mlir;
using namespace polyrank;

FailureOr<stage_order::Schedule> lowering::getSchedule(ModuleOp module,
                                                       int64_t microbatches) {
  pipeline::Stages stages = *pipeline::getStages(module);
  auto text = module->getAttrOfType<StringAttr>(pipeline::scheduleAttrName);
  int64_t ranks = 1 + *llvm::max_element(stages.coordinates);
  auto made =
      stage_order::makeSchedule(text ? text.getValue().str() : "1f1b", ranks,
                                stages.getNumStages() / ranks, microbatches);
  if (!made)
    return emitError(module.getLoc(), made.error().message);
  ArrayRef<int64_t> coordinates = made->coordinates;
  if (coordinates != stages.coordinates)
    return module.emitError("--schedule: its stages are at [")
           << llvm::interleaved(coordinates) << "], those of the model at ["
           << llvm::interleaved(stages.coordinates) << "]";
  return *std::move(made);
}

FailureOr<int64_t> lowering::getSlots(ModuleOp module,
                                      graph::MicrobatchesOp op) {
  FailureOr<stage_order::Schedule> schedule =
      getSchedule(module, op.getCount());
  if (failed(schedule))
    return failure();
  std::set<stage_order::StagePair> skips;
  op.walk([&](pipeline::TransferOp transfer) {
    int64_t from = transfer.getFrom().value_or(transfer.getTo()),
            to = transfer.getTo();
    if (from + 1 < to)
      skips.insert({from, to});
  });
  return stage_order::getSlots(*schedule, {skips.begin(), skips.end()});
}
