// The launcher's part in checkpoints: requests, commits, and the point from
// which ranks begin.

#pragma once

#include "runtime/launch/Launcher.h"
#include "runtime/report/Progress.h"
#include "runtime/session/Committer.h"
#include "runtime/session/Prepared.h"
#include "runtime/session/RankMessage.h"
#include "runtime/session/RunPage.h"

#include <chrono>
#include <optional>
#include <string>

namespace polyrank::runtime {

/// Exists also for a run without checkpoints, which begins from the start.
class RunCheckpoints {
public:
  /// `run` is changed where the ranks begin from another checkpoint. All must
  /// outlive this object.
  RunCheckpoints(Prepared &run, RunPage &page, Progress &progress);

  /// Tells the ranks of the next attempt from where they begin. Called while no
  /// rank runs on any machine.
  Result<void> begin();
  /// After a failure, chooses the newest checkpoint that the run has made, or
  /// else the one from which it began. `begin` follows.
  Result<void> takeNewest();
  /// Passes over the checkpoint that a rank has found damaged, for an older
  /// one. `begin` follows.
  Result<void> takeOlder(const std::string &damage);

  /// The samples of this feed from the beginning of this attempt on are not
  /// those that follow the ones before.
  void setInexact(const std::string &feed);

  /// Adds the metrics of a step, before the last report of its checkpoint.
  void note(const StepReport &step);
  void note(const EvaluationReport &report, const ManifestEvaluation &state);
  void take(int rank, const ShardReport &shard);
  /// Warns about the 1st, the 10th, the 100th .. skipped save.
  void noteSkipped(uint64_t step);
  /// Called often: reports commits, and requests saves by time.
  void tick();
  /// Waits until the checkpoints that all ranks have written are committed, and
  /// removes what ranks have left unfinished if they have failed. Schedulers
  /// may repeat their signals meanwhile; a SIGINT after another signal ends the
  /// wait (`isAbandoned`), which is an error.
  Result<void> finish(const EndSignals &signals, bool hasFailed);

  /// True if the user interrupted the wait for a thread that still writes to
  /// the disk.
  bool isAbandoned() const { return abandoned; }
  /// The reason if the latest save failed.
  std::optional<std::string> lastFailure() const;
  uint64_t skipped() const { return numSkipped; }
  /// Names the checkpoint from which the run can be resumed, for a message.
  std::string describeKept() const;

private:
  /// Removes what ranks have left, unless the folder is another run's by now.
  void removeUnfinished();
  /// Where machines share the ranks, the folder becomes this run's.
  Result<void> takeFolder();
  /// The ranks write the last step again, elsewhere than the checkpoint from
  /// which they resume.
  Result<bool> savesAtOnce() const;

  Prepared &run;
  RunPage &page;
  Progress &progress;
  FileOperations files;
  std::optional<FolderOwner> owner;   // where machines share the ranks
  std::optional<Committer> committer; // with --checkpoint
  std::chrono::steady_clock::time_point lastRequest; // of a save
  uint64_t requests = 0;
  uint64_t endedBefore = 0; // saves that had ended before this attempt
  uint64_t numSkipped = 0;  // saves, because of a slow disk
  bool abandoned = false;
};

} // namespace polyrank::runtime
