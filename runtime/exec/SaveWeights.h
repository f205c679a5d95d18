// Writes the values of a plan's stored tensors to files of weights.

#pragma once

#include "runtime/exec/SavedFiles.h"
#include "runtime/exec/Weights.h"
#include "runtime/job/Window.h"

namespace polyrank::runtime {

/// The size of the window in which the ranks assemble what is written, and its
/// parts: while one is written, the ranks fill the other. Ranks meet once per
/// round, so rounds are large.
inline constexpr uint64_t saveMemoryBytes = uint64_t(64) << 20;
inline constexpr int saveMemoryParts = 2;

/// The arguments of `saveWeights` on each rank.
struct SaveOptions {
  SavedWeights what;
  SavedFile target; // its path is for messages
  /// Descriptor of the OutputFile that the ranks of rank 0's machine share; -1
  /// on others.
  int file = -1;
  WindowRounds &rounds;
  ParallelFor parallelFor;
  /// Called now and then with the bytes written so far, and the total.
  std::function<void(uint64_t done, uint64_t bytes)> onProgress;
};

/// Writes one file of weights as safetensors under the names of the user's
/// model, including the aliases of tied tensors, so that
/// load_state_dict(strict=True) accepts a file with all tensors. Called by all
/// ranks; the file is complete when the call has returned on all of them.
/// Tensors that the program does not hold are copied from their source.
///
/// The file is written in rounds of some MiB. In each round the ranks assemble
/// a piece of it (WeightAssembler); then each rank of rank 0's machine writes
/// one dense part of it. So system calls are few and large for every layout.
Result<void> saveWeights(const LoadedPlan &plan, const RankProgram &program,
                         const Weights &initial, JobMember &job,
                         const SaveOptions &options);

} // namespace polyrank::runtime
