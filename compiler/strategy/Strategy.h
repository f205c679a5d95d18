// The strategy: how a step is divided over the devices of a mesh, and in which
// order they run its parts.
//
// It is a value. Each field is an option of polyrank-compile, so that it is
// read from a command line or a file of --config, and printed as a command line
// (toArguments) or as such a file (toFile).

#pragma once

#include "compiler/strategy/MeshAxes.h"
#include "support/OptionTable.h"

namespace polyrank::strategy {

struct Strategy {
  MeshAxes mesh;
  /// Constraints on layouts, PATTERN=DIMS (compiler/sharding/ShardPattern.h),
  /// and a file of them.
  std::vector<std::string> shards;
  std::string shardFile;
  /// The axes that split the batch, "a+b"; by default `replica` and `data`.
  std::string batchAxes;
  /// "none", "full", "selective", or globs over modules.
  std::string recompute = "none";
  bool recomputeGathers = false;
  int64_t microbatches = 1;

  /// The type in which products compute: "fp32", "bf16" or "fp16". Modules that
  /// `fp32` names, PATTERN[,PATTERN], compute in f32 all the same.
  std::string precision = "fp32";
  std::string fp32;
  /// The type in which ranks send the gradients of parameters to add them up:
  /// "fp32", or that of `precision`.
  std::string reduceDtype = "fp32";

  /// The mesh axis along which the pipeline stages lie; empty: `pipe`, if the
  /// mesh has it.
  std::string pipeAxis;
  /// The number of pipeline stages: empty or `auto`, or the number of ranks on
  /// the axis times `chunks`.
  std::string stages;
  /// PATTERN=K: places modules or values on stage K.
  std::vector<std::string> stagePatterns;
  /// The stages of each rank; 0: as many as the schedule needs.
  int64_t chunks = 0;
  /// The order in which ranks run their stages; empty: `1f1b`, or `interleaved`
  /// with several chunks.
  std::string schedule;

  /// The ZeRO stage. Stage 1 splits updates and optimizer state over the
  /// devices that would do the same work, for parameters of at least
  /// `zeroThreshold` elements; 2 also splits sums of gradients, 3 also
  /// parameters.
  int64_t zero = 1;
  /// `A+B`: the axes to split over, instead of those over which gradients are
  /// sums.
  std::string zeroAxes;
  int64_t zeroThreshold = 65536;
  /// For stages 2 and 3: `parts`, or `full` to reduce once per step.
  std::string zeroAccumulate = "parts";
  /// For stage 3: `use`, `step` or `keep=PATTERN[,PATTERN]`.
  std::string zeroGather = "use";

  /// Bucket sizes, as sharding::parseBucketSizes reads them.
  std::string bucketMegabytes = "auto";
  /// True if collectives start early and are awaited late. `prefetch` is the
  /// number of gathers of parameters that run ahead of the one in use.
  bool overlap = true;
  int64_t prefetch = 1;

  /// The options, with rows that fill the fields. `isForward` is read when an
  /// option is checked: the plan trains nothing.
  OptionTable options(const bool &isForward);

  /// The arguments of polyrank-compile, and the file of --config, that give
  /// this strategy.
  /// @{
  std::vector<std::string> toArguments() const;
  std::string toFile() const;
  /// @}

  /// Fails if the options do not fit each other: an axis that the mesh lacks,
  /// stages without an axis, sizes of buckets that are none.
  Result<void> check(mlir::MLIRContext &context) const;

  /// The mesh axis along which pipeline stages lie; -1 if there is none, or it
  /// has one rank. Fails if the mesh lacks the axis that the user named, or if
  /// options of a pipeline have no axis.
  Result<int32_t> findPipeAxis(sharding::MeshAttr mesh) const;
  /// The schedule, and the stages of each rank, with their defaults.
  /// @{
  std::string getSchedule() const;
  int64_t getChunks() const;
  /// @}

  /// Returns true if the axis splits the batch of inputs.
  bool splitsBatch(std::string_view axis) const;
  /// Returns true if a constraint of `shards` names the axis.
  bool constrains(std::string_view axis) const;
  /// The same strategy on other axes, without the constraints that name an axis
  /// that is no longer there.
  Strategy on(MeshAxes axes) const;
};

} // namespace polyrank::strategy
