// Fills a rank's arena, and what is saved of it, from a checkpoint of any mesh.

#pragma once

#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/Weights.h"

namespace polyrank::runtime {

/// Whether a plan can go on from a checkpoint: each of the model's tensors is
/// there, in its shape and a type that can be converted, and none is there that
/// the plan does not know; the same of the optimizer's state, unless that
/// begins anew. Everything that is wrong is named.
Result<void> checkResume(const plan::Plan &plan, const FoundCheckpoint &found,
                         bool resetOptimizer);

/// Loads parameters, running statistics and, unless it begins anew, all state.
/// `onTick` is called after each piece that is read.
Result<void> loadCheckpoint(RankProgram &program, const plan::Plan &plan,
                            int64_t rank, CheckpointReader &reader,
                            bool resetOptimizer,
                            const std::function<void()> &onTick);

/// The stored tensors of a plan as a checkpoint has them, which outlives it.
/// Fails where it lacks one.
Result<Weights> weightsOf(const LoadedPlan &plan, CheckpointReader &reader);

} // namespace polyrank::runtime
