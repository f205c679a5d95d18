// A rank's part in checkpoints: when it saves, and what it reports.

#pragma once

#include "runtime/exec/CheckpointSaver.h"
#include "runtime/session/FiniteChecks.h"

#include <chrono>
#include <functional>
#include <memory>

namespace polyrank::runtime {

/// Exists if the run writes checkpoints (--checkpoint). All ranks call `after`
/// and `save` after the same steps.
class RankCheckpoints {
public:
  /// Allocates the memory for a checkpoint. `finishSteps` waits for the steps
  /// that still run, and fails if nothing may be saved after them.
  static Result<std::unique_ptr<RankCheckpoints>>
  create(LoadedRank &rank, std::function<Result<void>()> finishSteps);

  /// Saves if a checkpoint is due after this step, of a run of `steps` steps.
  Result<void> after(uint64_t step, uint64_t steps);
  /// Saves after this step. Fails if the weights are not finite, which must not
  /// replace a good checkpoint.
  Result<void> save(uint64_t step);
  /// True if the latest save was after this step.
  bool isSaved(uint64_t step) const { return savedStep == step; }
  /// Reports a save that has come to its end.
  void poll();
  /// Waits for the save in progress, and reports it.
  void finish();

private:
  RankCheckpoints(LoadedRank &rank, std::function<Result<void>()> finishSteps)
      : rank(rank), finishSteps(std::move(finishSteps)), checks(rank) {}

  /// Returns true if the disk keeps up, or false if all ranks skip the save
  /// after this step. The training waits for the disk at most 2 s plus 1 % of
  /// its time.
  Result<bool> isSavedInTurn(uint64_t step);
  /// RunPage::decideSave, for the ranks of all machines.
  Result<RunPage::SaveDecision> decide(uint64_t number, uint64_t step,
                                       bool givesUp);
  void report(const std::optional<ShardReport> &shard) const;

  LoadedRank &rank;
  std::function<Result<void>()> finishSteps;
  FiniteChecks checks;
  CheckpointLayout layout;
  FileOperations files;
  std::unique_ptr<CheckpointSaver> saver;
  uint64_t savedStep = 0;   // of the latest checkpoint
  uint64_t due = 0;         // saves that were due
  double waitedForDisk = 0; // seconds
  std::chrono::steady_clock::time_point began =
      std::chrono::steady_clock::now();
};

} // namespace polyrank::runtime
