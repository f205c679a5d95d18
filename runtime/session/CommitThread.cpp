// The queue of commits, and one commit.

#include "runtime/session/CommitThread.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace polyrank::runtime {

CommitThread::CommitThread(const CheckpointOptions &options,
                           FileOperations &files,
                           std::function<bool(uint64_t)> isEvaluated)
    : options(options), files(files), isEvaluated(std::move(isEvaluated)) {
  thread = std::thread([this] { work(); });
}

CommitThread::~CommitThread() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
}

void CommitThread::setRun(int64_t number, const FolderOwner *whose) {
  std::lock_guard lock(mutex);
  run = number;
  owner = whose;
}

void CommitThread::push(Task &&task) {
  {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(task));
  }
  changed.notify_all();
}

void CommitThread::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return ending || !queue.empty(); });
    if (queue.empty())
      return;
    Task next = std::move(queue.front());
    queue.pop_front();
    working = true;
    lock.unlock();
    Outcome outcome = commit(std::move(next));
    lock.lock();
    working = false;
    outcomes.push_back(std::move(outcome));
    changed.notify_all();
  }
}

CommitThread::Outcome CommitThread::commit(Task &&task) {
  auto start = std::chrono::steady_clock::now();
  const Manifest &manifest = task.manifest;
  if (task.isAmended) {
    Outcome outcome;
    outcome.isAmended = true;
    outcome.warning = amend(manifest);
    return outcome;
  }
  std::string unfinished = unfinishedPath(options.folder, manifest.step, run);
  Outcome outcome;
  outcome.report.step = manifest.step;
  outcome.report.path = checkpointPath(options.folder, manifest.step);
  outcome.report.bytes = task.bytes;
  outcome.report.copySeconds = task.copySeconds;
  if (!task.error.empty())
    outcome.error = task.error;
  else if (Result<void> ours = checkOwner(); !ours)
    outcome.error = ours.error().message;
  else if (Result<void> done =
               commitCheckpoint(files, options.folder, unfinished, manifest);
           !done)
    outcome.error = done.error().message;
  outcome.report.writeSeconds =
      task.writeSeconds +
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  if (outcome.error.empty()) {
    setCommitted(manifest.step);
    bool isFinal =
        !isEvaluated(manifest.step) ||
        (manifest.evaluation && manifest.evaluation->step == manifest.step);
    outcome.warning = tidy(manifest, isFinal);
  } else if (Result<void> removed = removeUnfinished(files, unfinished);
             !removed) {
    outcome.warning = removed.error().message;
  }
  return outcome;
}

std::string CommitThread::amend(const Manifest &manifest) {
  {
    std::lock_guard lock(mutex);
    if (!whole.contains(manifest.step))
      return "";
  }
  Result<void> amended = checkOwner();
  if (amended)
    amended = amendCheckpoint(files, options.folder, manifest);
  if (!amended)
    return fmt::format("{}; the checkpoint of step {} stays as it is, without "
                       "the evaluation after it",
                       amended.error().message, manifest.step);
  return tidy(manifest, true);
}

std::string CommitThread::tidy(const Manifest &manifest, bool isFinal) {
  if (Result<void> removed =
          applyRetention(files, options.folder, options.retention, run);
      !removed)
    return removed.error().message;
  const std::string &best = options.retention.best;
  if (isFinal && !best.empty() &&
      std::none_of(manifest.metrics.begin(), manifest.metrics.end(),
                   [&](auto &metric) { return metric.first == best; }))
    return fmt::format("--keep-best {}: step {} has no such metric", best,
                       manifest.step);
  return "";
}

void CommitThread::setCommitted(uint64_t step) {
  std::lock_guard lock(mutex);
  whole.insert(step);
}

std::deque<CommitThread::Outcome> CommitThread::takeOutcomes() {
  std::lock_guard lock(mutex);
  return std::exchange(outcomes, {});
}

bool CommitThread::awaitAll(const std::function<bool()> &givesUp) {
  std::unique_lock lock(mutex);
  auto isIdle = [&] { return queue.empty() && !working; };
  while (!changed.wait_for(lock, std::chrono::milliseconds(100), isIdle))
    if (givesUp())
      return false;
  return true;
}

} // namespace polyrank::runtime
