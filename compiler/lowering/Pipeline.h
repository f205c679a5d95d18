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

/// localize, form-segments, form-gemms, form-kernels, choose-gemms,
/// assign-buffers, and the checks.
void buildLoweringPipeline(mlir::OpPassManager &manager,
                           const LoweringPipelineOptions &options);

} // namespace polyrank::lowering
