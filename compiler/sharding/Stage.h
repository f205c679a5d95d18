// The list of passes from layouts to collectives.

#pragma once

#include "compiler/sharding/Passes.h"
#include "mlir/Pass/PassOptions.h"

namespace polyrank::sharding {

/// The options of the passes.
struct PartitionOptions {
  RecomputeOptions recompute;
  ShardUpdatesOptions updates;
  BucketCollectivesOptions buckets;
};

/// Adds recompute, shard-updates, decompose-composites, plan-reshards,
/// mark-stages, bucket-collectives, place-values and check-partition. They
/// follow propagate-layouts.
void partitionStage(mlir::OpPassManager &manager,
                    const PartitionOptions &options);

/// The same options as text, for polyrank-opt.
struct PartitionStageOptions
    : mlir::PassPipelineOptions<PartitionStageOptions> {
  Option<std::string> recompute{
      *this, "recompute", llvm::cl::init("none"),
      llvm::cl::desc("none, full, selective, or PATTERN[,PATTERN] of modules")};
  Option<bool> recomputeGathers{
      *this, "recompute-gathers", llvm::cl::init(false),
      llvm::cl::desc("Communicate again for that too")};
  Option<int64_t> zero{
      *this, "zero", llvm::cl::init(1),
      llvm::cl::desc("1: ranks that would all do the same split the update and "
                     "its state, 2: the sum of gradients too, 3: parameters")};
  Option<std::string> zeroAxes{
      *this, "zero-axis",
      llvm::cl::desc("A+B: over which axes, instead of the gradients'")};
  Option<int64_t> threshold{
      *this, "threshold", llvm::cl::init(65536),
      llvm::cl::desc("Elements that a parameter must have for that")};
  Option<std::string> accumulate{
      *this, "zero-accumulate", llvm::cl::init("parts"),
      llvm::cl::desc("parts, or full: whole sums, which are reduced once")};
  Option<std::string> gather{
      *this, "zero-gather", llvm::cl::init("use"),
      llvm::cl::desc("use, step or keep=PATTERN[,PATTERN]")};
  Option<std::string> megabytes{
      *this, "mb", llvm::cl::init("25"),
      llvm::cl::desc("The most that a bucket holds, in MiB: 25, or "
                     "all-gather=50,reduce-scatter=25,first=1")};

  PartitionOptions get() const;
};

} // namespace polyrank::sharding
