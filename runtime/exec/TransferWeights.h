// Copies weights from one plan's ranks to another's, on the same processes.

#pragma once

#include "runtime/exec/SaveWeights.h"

namespace polyrank::runtime {

/// Copies the stored tensors that the ranks of one plan hold to the ranks of
/// another plan of the same model, for any layouts of both. In each round the
/// ranks assemble some whole tensors in a window (WeightAssembler), and each
/// takes from there what it needs.
class WeightTransfer {
public:
  /// Pairs the stored tensors by name. Fails if `to` lacks a tensor that `from`
  /// trains, or has it in another shape. `what` selects the values.
  static Result<WeightTransfer> prepare(const LoadedPlan &from,
                                        const LoadedPlan &to,
                                        const SavedWeights &what);

  /// The size of a part of the window, in bytes: at least that of the largest
  /// tensor.
  uint64_t memoryBytes() const { return memory; }

  /// Called by all ranks, each with its own programs. `initial` are the weights
  /// from which `source` was loaded; elements that no rank holds come from
  /// there.
  Result<void> run(const LoadedPlan &from, const RankProgram &source,
                   const Weights &initial, RankProgram &target, JobMember &job,
                   WindowRounds &rounds, const ParallelFor &parallelFor) const;

private:
  /// A tensor of both plans, its round, and its offset in the window.
  struct Pair {
    uint32_t from, to;
    ElementType dtype;
    int64_t elements;
    uint64_t offset;
    uint32_t round;

    uint64_t bytes() const { return uint64_t(elements) * bytesOf(dtype); }
  };

  SavedWeights what;
  std::vector<Pair> pairs; // by round
  uint32_t numRounds = 0;
  uint64_t memory = 0;
};

} // namespace polyrank::runtime
