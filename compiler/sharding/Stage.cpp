// The order of the sharding passes.

#include "compiler/sharding/Stage.h"

#include "compiler/stages/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace polyrank;

void sharding::partitionStage(OpPassManager &manager,
                              const PartitionOptions &options) {
  if (options.recompute.what != "none") {
    // The parts of a composite keep other values for the backward than the
    // composite does, so composites are decomposed before values are chosen.
    manager.addNestedPass<func::FuncOp>(createDecomposeComposites());
    manager.addNestedPass<func::FuncOp>(createRecompute(options.recompute));
  }
  manager.addNestedPass<func::FuncOp>(createMarkPhases());
  manager.addNestedPass<func::FuncOp>(createShardUpdates(options.updates));
  manager.addNestedPass<func::FuncOp>(createDecomposeComposites());
  manager.addNestedPass<func::FuncOp>(createPlanReshards());
  // A bucket contains collectives of one pipeline stage only.
  manager.addNestedPass<func::FuncOp>(stages::createMarkStages());
  manager.addNestedPass<func::FuncOp>(createBucketCollectives(options.buckets));
  manager.addNestedPass<func::FuncOp>(stages::createPlaceValues());
  manager.addNestedPass<func::FuncOp>(createCheckPartition());
}

sharding::PartitionOptions sharding::PartitionStageOptions::get() const {
  PartitionOptions options;
  options.recompute = {recompute, recomputeGathers};
  options.updates = {zero, zeroAxes, threshold, accumulate, gather};
  options.buckets = {megabytes};
  return options;
}
