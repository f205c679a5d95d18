// The launcher's side of checkpoints: commits what the ranks have written.

#pragma once

#include "runtime/checkpoint/Commit.h"
#include "runtime/exec/CheckpointSaver.h"
#include "runtime/report/Progress.h"
#include "tools/polyrank-run/CheckpointOptions.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace polyrank::runtime {

nlohmann::json toJson(const ShardReport &shard);
ShardReport shardFromJson(const nlohmann::json &json);

/// Puts a checkpoint together when all ranks have said that their file is
/// durable, and commits it on a thread of its own: nobody waits for the disk.
/// What it did is told by `tick` and `finish`, on the thread that calls them. A
/// save that fails costs that checkpoint alone.
class Committer {
public:
  /// `layout.manifest` with everything that is the same in all checkpoints of
  /// the run. `run` is its number, and `isEvaluated` says of a step whether an
  /// evaluation comes after it.
  Committer(const CheckpointOptions &options, CheckpointLayout layout,
            int64_t run, FileOperations &files,
            std::function<bool(uint64_t step)> isEvaluated);
  ~Committer();

  /// Metrics of a step, before the last report of its checkpoint.
  void note(uint64_t step,
            const std::vector<std::pair<std::string, double>> &metrics);
  /// An evaluation after a step, and what all until then came to. Its
  /// checkpoint may be whole already, and is given another manifest then.
  void evaluated(const ManifestEvaluation &evaluation,
                 const std::vector<std::pair<std::string, double>> &metrics);
  /// The ranks begin with this checkpoint, or, where it is null, anew, and with
  /// what evaluations came to until then: what is known of later ones counts no
  /// more. No save is being written.
  void beginWith(const FoundCheckpoint *resumed,
                 const std::optional<ManifestEvaluation> &evaluation);
  /// What a rank says of its file.
  void take(int rank, const ShardReport &shard);

  /// The step after which the order of samples began, of checkpoints from now
  /// on.
  void setOrigin(uint64_t step) { layout.manifest.data.origin = step; }

  /// What has been done since it was last asked.
  void tick(Progress &progress);
  /// Waits for what all ranks have written, removes the rest, and tells. False
  /// where `givesUp`, which is asked now and then, ends the waiting: the thread
  /// is still at work then, and the process has to end without it.
  bool finish(Progress &progress, const std::function<bool()> &givesUp);

  /// How many checkpoints of this run have come to an end, whole or failed.
  uint64_t ended() const { return numEnded; }
  /// The step of the last one that is committed by this run; 0: none.
  uint64_t lastStep() const { return committed; }
  /// Why the latest failed, if it did.
  const std::optional<std::string> &lastFailure() const { return failure; }

private:
  struct Pending {
    Manifest manifest;
    size_t reports = 0;
    uint64_t bytes = 0;
    double copySeconds = 0, writeSeconds = 0; // of the slowest rank
    std::string error;                        // of the first rank with one
    bool isAmended = false; // it is committed, and gets another manifest
  };
  struct Outcome {
    CheckpointReport report;
    std::string error, warning;
    bool isAmended = false;
  };

  void work();
  Outcome commit(Pending &&pending);
  std::string amend(const Manifest &manifest);
  std::string tidy(const Manifest &manifest, bool isFinal);
  void push(Pending &&pending);

  const CheckpointOptions &options;
  CheckpointLayout layout;
  int64_t run;
  FileOperations &files;
  std::function<bool(uint64_t)> isEvaluated;
  size_t writers = 0; // ranks with a file
  std::map<uint64_t, Pending> pending;
  std::map<uint64_t, std::vector<std::pair<std::string, double>>> metrics;
  /// The manifests that were given to the thread last, by step, and the
  /// evaluations of this attempt: of ranks that are some steps apart the one or
  /// the other is told first.
  std::map<uint64_t, Manifest> given;
  std::map<uint64_t, ManifestEvaluation> evaluations;
  std::optional<ManifestEvaluation> before; // what they began with
  std::set<uint64_t> whole; // steps that the thread has committed
  uint64_t committed = 0, numEnded = 0;
  std::optional<std::string> failure;
  bool hasWarned = false;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Pending> queue;
  std::deque<Outcome> outcomes;
  bool working = false, ending = false;
  std::thread thread;
};

} // namespace polyrank::runtime
