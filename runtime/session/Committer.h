// The launcher's side of checkpoints: commits what the ranks have written.

#pragma once

#include "runtime/exec/CheckpointSaver.h"
#include "runtime/session/CommitThread.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// Assembles a checkpoint once all ranks have reported that their file is
/// durable, and commits it on a thread of its own, so that the launcher does
/// not wait for the disk. `tick` and `finish` report what it did, on the thread
/// that calls them. A failed save loses only that checkpoint.
class Committer {
public:
  /// `layout.manifest` has everything that is the same in all checkpoints of
  /// the run. `isEvaluated` returns true if an evaluation follows a step.
  Committer(const CheckpointOptions &options, CheckpointLayout layout,
            FileOperations &files,
            std::function<bool(uint64_t step)> isEvaluated);

  /// Adds the metrics of a step, before the last report of its checkpoint.
  void note(uint64_t step,
            const std::vector<std::pair<std::string, double>> &metrics);
  /// Adds an evaluation after a step, and the result of all evaluations so far.
  /// If the step's checkpoint is already committed, its manifest is replaced.
  void evaluated(const ManifestEvaluation &evaluation,
                 const std::vector<std::pair<std::string, double>> &metrics);
  /// The ranks begin with this checkpoint, or from scratch if it is null, and
  /// with the result of the evaluations up to there. What is known of later
  /// evaluations is discarded. Their unfinished files have the number `run`
  /// from now on, and only `owner`, if it is not null, commits them. No save
  /// may be in progress.
  void beginWith(int64_t run, const FolderOwner *owner,
                 const FoundCheckpoint *resumed,
                 const std::optional<ManifestEvaluation> &evaluation);
  /// Takes a rank's report of its file.
  void take(int rank, const ShardReport &shard);

  /// Sets the step after which the order of samples began, for later
  /// checkpoints.
  void setOrigin(uint64_t step) { layout.manifest.data.origin = step; }

  /// Sets the order of samples, for later checkpoints.
  void setOrder(const std::string &order) {
    layout.manifest.data.order = order;
  }

  /// Reports what has been done since the last call.
  void tick(Progress &progress);
  /// Waits until the checkpoints that all ranks have written are committed,
  /// removes the others, and reports. Polls `givesUp` meanwhile; if that ends
  /// the wait, returns false: the thread is still working then, and the process
  /// has to exit without it.
  bool finish(Progress &progress, const std::function<bool()> &givesUp);

  /// The number of saves of this run that have ended, committed or failed.
  uint64_t ended() const { return numEnded; }
  /// The step of the last checkpoint that this run has committed; 0: none.
  uint64_t lastStep() const { return committed; }
  /// The reason if the latest save failed.
  const std::optional<std::string> &lastFailure() const { return failure; }

private:
  /// A checkpoint of which some ranks have not yet reported their file.
  struct Pending : CommitThread::Task {
    size_t reports = 0;
  };

  const CheckpointOptions &options;
  CheckpointLayout layout;
  int64_t run = 0;
  FileOperations &files;
  size_t writers = 0; // ranks with a file
  std::map<uint64_t, Pending> pending;
  std::map<uint64_t, std::vector<std::pair<std::string, double>>> metrics;
  /// The manifests last given to the thread, by step, and the evaluations of
  /// this attempt. Both are kept, since either may arrive first if ranks are
  /// some steps apart.
  std::map<uint64_t, Manifest> given;
  std::map<uint64_t, ManifestEvaluation> evaluations;
  std::optional<ManifestEvaluation> before; // state at the begin
  uint64_t committed = 0, numEnded = 0;
  std::optional<std::string> failure;
  bool hasWarned = false;
  CommitThread thread;
};

} // namespace polyrank::runtime
