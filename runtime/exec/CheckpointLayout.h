// What of a plan goes into a checkpoint, and which rank writes which part.

#pragma once

#include "runtime/checkpoint/Manifest.h"
#include "runtime/exec/Boxes.h"
#include "runtime/plan/PlanMesh.h"
#include "support/safetensors/Safetensors.h"

namespace polyrank::runtime {

/// A tensor of a rank's file: a chunk of one of the manifest's tensors.
struct CheckpointPart {
  uint32_t tensor = 0, chunk = 0; // numbers in the manifest
  /// Where the rank has it: elements of an argument's shard, as placed in the
  /// chunk. Without one it is a part that no rank computes with, of stored
  /// tensor number `stored`, which is as it was before the training.
  const plan::Argument *argument = nullptr;
  Placement placement;
  uint32_t stored = 0;
};

/// The same on all ranks. Replicas are written once, by whichever of the ranks
/// that have them has least to write.
struct CheckpointLayout {
  /// Files, tensors and chunks; no checksums, and files have no size yet.
  Manifest manifest;
  std::vector<std::vector<CheckpointPart>> parts; // of each rank
  std::vector<int64_t> files; // of each rank: the number of its file, or -1

  /// The tensors of a rank's file.
  std::vector<TensorSpec> specsOf(int64_t rank) const;
  /// Of all tensors.
  uint64_t bytes() const;
};

/// Names of the model's tensors and of state, shapes and dtypes, as checkpoints
/// of a plan have them: what is in `layout.manifest.tensors`, without chunks.
struct CheckpointName {
  TensorRole role;
  std::string name, parameter, suffix;
};
CheckpointName checkpointNameOf(const plan::Plan &plan,
                                const plan::Argument &argument);
/// Whether an argument of a plan lasts from step to step.
bool isKept(const plan::Argument &argument);
/// The shape of its tensor.
std::vector<int64_t> keptShapeOf(const plan::Plan &plan,
                                 const plan::Argument &argument);
/// The rank's elements of that tensor.
Placement keptPlacementOf(const Mesh &mesh, int64_t rank,
                          const plan::Argument &argument);

/// Fails where a tensor's parts cannot be told apart as boxes, or do not make
/// up the tensor.
Result<CheckpointLayout> checkpointLayoutOf(const plan::Plan &plan);

} // namespace polyrank::runtime
