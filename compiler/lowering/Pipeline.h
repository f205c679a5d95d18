// From a partitioned program to the commands of one device, as one pipeline.

#pragma once

#include "compiler/lowering/Passes.h"
#include "mlir/Pass/PassOptions.h"

namespace polyrank::lowering {

/// What the passes take.
struct LoweringPipelineOptions
    : mlir::PassPipelineOptions<LoweringPipelineOptions> {
  Option<int64_t> threads{*this, "threads", llvm::cl::init(1),
                          llvm::cl::desc("Threads of a rank")};
};

/// localize, choose-orders, form-segments, form-gemms, form-kernels,
/// lower-kernels, choose-gemms, assign-buffers, check-buffers and check-ranks:
/// after check-partition.
void buildLoweringPipeline(mlir::OpPassManager &manager,
                           const LoweringPipelineOptions &options);

} // namespace polyrank::lowering
