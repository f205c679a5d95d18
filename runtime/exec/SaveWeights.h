// Where the values of a plan's stored tensors go.

#pragma once

#include "runtime/exec/SavedFiles.h"
#include "runtime/exec/Weights.h"

namespace polyrank::runtime {

/// The size of the memory that all ranks map, and in which they put together
/// what is written.
inline constexpr uint64_t saveMemoryBytes = uint64_t(64) << 20;

/// What `saveWeights` needs of a rank.
struct SaveOptions {
  SavedWeights what;
  SavedFile target; // its path is for messages
  int file = -1;    // the descriptor of one OutputFile, the same for all ranks
  std::span<std::byte> memory;
  ParallelFor parallelFor;
  /// Told now and then how many bytes of all are written.
  std::function<void(uint64_t done, uint64_t bytes)> onProgress;
};

/// Writes one file of weights as safetensors under the names of the user's
/// model, the aliases of tied tensors too, as load_state_dict(strict=True)
/// expects where all are saved. Called by all ranks; the file is whole when it
/// returns on all of them. Tensors that the program does not hold are copied
/// from their source.
///
/// The file is written in rounds of some MiB. In each, every rank copies its
/// elements to their places in the shared memory, however they are laid out and
/// interleaved with those of other ranks, and replicas share the work; then
/// each rank writes one dense window of it. So system calls are few and large
/// for every layout.
Result<void> saveWeights(const LoadedPlan &plan, const RankProgram &program,
                         const Weights &initial, Transport &transport,
                         Group everyone, const SaveOptions &options);

} // namespace polyrank::runtime
