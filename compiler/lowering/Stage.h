// The list of passes from a partitioned program to the commands of one device.

#pragma once

#include "compiler/lowering/Passes.h"
#include "mlir/Pass/PassOptions.h"

namespace polyrank::lowering {

/// Options of the passes.
struct LoweringStageOptions : mlir::PassPipelineOptions<LoweringStageOptions> {
  Option<int64_t> ahead{
      *this, "ahead", llvm::cl::init(0),
      llvm::cl::desc("Microbatches that go forward before one goes backward; "
                     "0: a microbatch is not cut")};
  Option<bool> measure{
      *this, "measure", llvm::cl::init(true),
      llvm::cl::desc("Run large products to choose how they are computed")};
  Option<AttentionKind> attention{
      *this, "attention", llvm::cl::init(AttentionKind::Auto),
      llvm::cl::desc("How attention is computed"),
      llvm::cl::values(
          clEnumValN(AttentionKind::Auto, "auto",
                     "what the target says is faster"),
          clEnumValN(AttentionKind::Fused, "fused", "one call"),
          clEnumValN(AttentionKind::Parts, "parts", "products and kernels"))};
  Option<bool> overlap{
      *this, "overlap", llvm::cl::init(true),
      llvm::cl::desc("Start collectives early and wait for them late")};
  Option<int64_t> prefetch{
      *this, "prefetch", llvm::cl::init(1),
      llvm::cl::desc("Gathers that are started ahead of the one in use")};
  Option<bool> report{*this, "report", llvm::cl::init(false),
                      llvm::cl::desc("Print how long a step takes")};
};

/// Adds localize, choose-orders, form-segments, form-loops, form-attention,
/// form-gemms, form-kernels, lower-kernels, choose-calls, with `overlap`
/// order-commands and start-collectives, then assign-buffers, check-buffers and
/// check-ranks. Runs after check-partition.
void loweringStage(mlir::OpPassManager &manager,
                   const LoweringStageOptions &options);

} // namespace polyrank::lowering
