// Commits checkpoints in the background.

#pragma once

#include "runtime/checkpoint/Commit.h"
#include "runtime/checkpoint/FolderOwner.h"
#include "runtime/report/Progress.h"
#include "runtime/session/CheckpointOptions.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace polyrank::runtime {

/// A thread that commits one checkpoint after another, and applies the
/// retention after each, so that the launcher does not wait for the disk.
class CommitThread {
public:
  /// A checkpoint whose files are durable, or one that failed (`error`).
  struct Task {
    Manifest manifest;
    uint64_t bytes = 0;
    double copySeconds = 0, writeSeconds = 0; // of the slowest rank
    std::string error;                        // of the first rank that failed
    bool isAmended = false; // it is committed, and its manifest is replaced
  };
  struct Outcome {
    CheckpointReport report;
    std::string error, warning;
    bool isAmended = false;
  };

  /// `isEvaluated` returns true if an evaluation follows a step.
  CommitThread(const CheckpointOptions &options, FileOperations &files,
               std::function<bool(uint64_t step)> isEvaluated);
  /// Does all tasks first.
  ~CommitThread();

  /// The number in the names of the files that are not finished, and whose the
  /// folder must be for a commit; null: anybody's. There must be no task.
  void setRun(int64_t number, const FolderOwner *owner);
  void push(Task &&task);
  /// The checkpoint of this step is committed already, by an earlier run.
  void setCommitted(uint64_t step);
  /// Returns what has been done since the last call.
  std::deque<Outcome> takeOutcomes();
  /// Waits until all tasks are done. Polls `givesUp` meanwhile, and returns
  /// false if that ends the wait.
  bool awaitAll(const std::function<bool()> &givesUp);

private:
  void work();
  Outcome commit(Task &&task);
  Result<void> checkOwner() const {
    return owner ? owner->check() : Result<void>();
  }
  /// Replaces the manifest of a committed checkpoint. Returns a warning, or "".
  std::string amend(const Manifest &manifest);
  /// Applies the retention after a checkpoint is new, or has new metrics; with
  /// `isFinal` it has all its metrics. Returns a warning, or "".
  std::string tidy(const Manifest &manifest, bool isFinal);

  const CheckpointOptions &options;
  int64_t run = 0;
  const FolderOwner *owner = nullptr;
  FileOperations &files;
  std::function<bool(uint64_t)> isEvaluated;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> queue;
  std::deque<Outcome> outcomes;
  std::set<uint64_t> whole; // steps that are committed
  bool working = false, ending = false;
  std::thread thread;
};

} // namespace polyrank::runtime
