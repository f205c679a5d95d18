// Weights from one plan's ranks to another's, on the same processes.

#pragma once

#include "runtime/exec/SaveWeights.h"

namespace polyrank::runtime {

/// Copies what the ranks of one plan hold of the stored tensors to the ranks of
/// another plan of the same model, whatever the layouts of both: in rounds,
/// over memory that all ranks map, in which the tensors of a round lie whole.
class WeightTransfer {
public:
  /// Pairs the stored tensors by name. Fails where `to` has none for a tensor
  /// that `from` trains, or one of another shape. `what` says which values.
  static Result<WeightTransfer> prepare(const LoadedPlan &from,
                                        const LoadedPlan &to,
                                        const SavedWeights &what);

  /// Of the memory, in bytes; as large as the largest tensor at least.
  uint64_t memoryBytes() const { return memory; }

  /// Called by all ranks, each with its own programs. `initial` are the weights
  /// that `source` was loaded from: what no rank holds comes from there.
  Result<void> run(const RankProgram &source, const Weights &initial,
                   RankProgram &target, Transport &transport, Group everyone,
                   std::span<std::byte> memory,
                   const ParallelFor &parallelFor) const;

private:
  /// A tensor of both plans, and where it lies in the memory in its round.
  struct Pair {
    uint32_t from, to;
    DType dtype;
    bool complete;
    int64_t elements;
    uint64_t offset;
    uint32_t round;

    uint64_t bytes() const { return uint64_t(elements) * bytesOf(dtype); }
  };

  SavedWeights what;
  std::vector<Pair> pairs; // by round
  uint32_t rounds = 0;
  uint64_t memory = 0;
};

} // namespace polyrank::runtime
