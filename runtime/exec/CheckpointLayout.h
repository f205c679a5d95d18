// The tensors of a plan that go into a checkpoint, and the rank that writes
// each part.

#pragma once

#include "runtime/checkpoint/Manifest.h"
#include "runtime/exec/Boxes.h"
#include "runtime/plan/PlanMesh.h"
#include "support/safetensors/Safetensors.h"

namespace polyrank::runtime {

/// A tensor of a rank's file: a chunk of one of the manifest's tensors.
struct CheckpointPart {
  uint32_t tensor = 0, chunk = 0; // numbers in the manifest
  /// The argument whose shard has the part, and the placement of its elements
  /// in the chunk. If null, no rank computes with the part: its values are
  /// those of stored tensor number `stored` before the training.
  const plan::Argument *argument = nullptr;
  Placement placement;
  uint32_t stored = 0;
};

/// The layout of a checkpoint, the same on all ranks. Replicas are written
/// once, by the rank among their holders that has least to write.
struct CheckpointLayout {
  /// Files, tensors and chunks; no checksums, and files have no size yet.
  Manifest manifest;
  std::vector<std::vector<CheckpointPart>> parts; // by rank
  std::vector<int64_t> files; // by rank: the number of its file, or -1

  /// The tensors of a rank's file.
  std::vector<TensorSpec> specsOf(int64_t rank) const;
  /// The bytes of all tensors.
  uint64_t bytes() const;
};

/// The name of a model's tensor or of state in the checkpoints of a plan, as in
/// `layout.manifest.tensors`.
struct CheckpointName {
  TensorRole role;
  std::string name, parameter, suffix;
};
CheckpointName checkpointNameOf(const plan::Plan &plan,
                                const plan::Argument &argument);
/// True if an argument of a plan persists from step to step.
bool isKept(const plan::Argument &argument);
/// The shape of such an argument's tensor.
std::vector<int64_t> keptShapeOf(const plan::Plan &plan,
                                 const plan::Argument &argument);
/// The placement of the rank's elements in that tensor.
Placement keptPlacementOf(const Mesh &mesh, int64_t rank,
                          const plan::Argument &argument);
/// The same for a part of the elements, whose dims are `blocks`.
Placement keptPlacementOf(const std::vector<BlockDim> &blocks,
                          const plan::Argument &argument);

/// Fails if a tensor's parts cannot be split into boxes, or do not cover the
/// tensor.
Result<CheckpointLayout> checkpointLayoutOf(const plan::Plan &plan);

} // namespace polyrank::runtime
