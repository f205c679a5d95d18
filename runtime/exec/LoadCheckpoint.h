// Loads a checkpoint, written on any mesh, into a rank's arena.

#pragma once

#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/Weights.h"

namespace polyrank::runtime {

/// Fails unless a plan can resume from a checkpoint: it must have each of the
/// model's tensors, in its shape and a convertible type, and none that the plan
/// does not know; the same holds for the optimizer's state, unless that is
/// reset. The error lists everything that is wrong.
Result<void> checkResume(const plan::Plan &plan, const FoundCheckpoint &found,
                         bool resetOptimizer);

/// Loads parameters, running statistics and, unless it is reset, the
/// optimizer's state. `onTick` is called after each piece.
Result<void> loadCheckpoint(RankProgram &program, const plan::Plan &plan,
                            CheckpointReader &reader, bool resetOptimizer,
                            const std::function<void()> &onTick);

/// Returns the stored tensors of a plan with the values of a checkpoint, whose
/// reader must outlive them. Fails if the checkpoint lacks one.
Result<Weights> weightsOf(const LoadedPlan &plan, CheckpointReader &reader);

} // namespace polyrank::runtime
