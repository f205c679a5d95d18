// The order of the sharding passes.

#include "compiler/sharding/Pipeline.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace polyrank;

void sharding::buildPartitionPipeline(OpPassManager &manager,
                                      const PartitionPipelineOptions &options) {
  if (options.recompute != "none") {
    // The parts of a composite keep other values for the backward than the
    // composite does, so composites are taken apart before values are chosen.
    manager.addNestedPass<func::FuncOp>(createDecomposeComposites());
    manager.addNestedPass<func::FuncOp>(
        createRecompute({options.recompute, options.recomputeGathers}));
  }
  manager.addNestedPass<func::FuncOp>(createMarkPhases());
  manager.addNestedPass<func::FuncOp>(
      createShardUpdates({options.zero, options.zeroAxes, options.threshold,
                          options.accumulate, options.gather}));
  manager.addNestedPass<func::FuncOp>(createDecomposeComposites());
  PlanReshardsOptions reshards;
  llvm::append_range(reshards.links, options.links);
  manager.addNestedPass<func::FuncOp>(createPlanReshards(reshards));
  manager.addNestedPass<func::FuncOp>(
      createBucketCollectives({options.megabytes}));
  manager.addNestedPass<func::FuncOp>(createCheckPartition());
}
