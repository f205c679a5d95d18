// Collects the ranks' reports, and commits in the background.

#include "runtime/session/Committer.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace polyrank::runtime {

Committer::Committer(const CheckpointOptions &options, CheckpointLayout planned,
                     FileOperations &files,
                     std::function<bool(uint64_t)> isEvaluated)
    : options(options), layout(std::move(planned)), files(files),
      thread(options, files, std::move(isEvaluated)) {
  for (const auto &parts : layout.parts)
    writers += !parts.empty();
}

void Committer::note(uint64_t step,
                     const std::vector<std::pair<std::string, double>> &noted) {
  auto &known = metrics[step];
  for (auto &each : noted)
    known.push_back(each);
  // Ranks are only some steps apart, but a checkpoint takes longer.
  constexpr size_t kept = 4096;
  while (metrics.size() > kept)
    metrics.erase(metrics.begin());
}

void Committer::beginWith(int64_t number, const FolderOwner *owner,
                          const FoundCheckpoint *resumed,
                          const std::optional<ManifestEvaluation> &evaluation) {
  run = number;
  thread.setRun(run, owner);
  evaluations.clear();
  given.clear();
  before = evaluation;
  if (!resumed ||
      resumed->path != checkpointPath(options.folder, resumed->manifest.step))
    return;
  const Manifest &manifest = resumed->manifest;
  // An evaluation after this step that is still to be made belongs to the
  // checkpoint, too.
  given[manifest.step] = manifest;
  thread.setCommitted(manifest.step);
}

void Committer::evaluated(
    const ManifestEvaluation &evaluation,
    const std::vector<std::pair<std::string, double>> &noted) {
  evaluations[evaluation.step] = evaluation;
  bool isGiven = false;
  for (auto &[step, manifest] : given) {
    if (step < evaluation.step ||
        (manifest.evaluation && manifest.evaluation->step >= evaluation.step))
      continue;
    manifest.evaluation = evaluation;
    if (step == evaluation.step) {
      isGiven = true;
      manifest.metrics.insert(manifest.metrics.end(), noted.begin(),
                              noted.end());
    }
    CommitThread::Task again;
    again.manifest = manifest;
    again.isAmended = true;
    thread.push(std::move(again));
  }
  if (!isGiven)
    note(evaluation.step, noted);
}

void Committer::take(int rank, const ShardReport &shard) {
  auto [place, isNew] = pending.try_emplace(shard.step);
  Pending &each = place->second;
  if (isNew) {
    each.manifest = layout.manifest;
    each.manifest.step = shard.step;
  }
  const auto &parts = layout.parts[static_cast<size_t>(rank)];
  if (each.error.empty())
    each.error = shard.error;
  if (shard.error.empty() && shard.checksums.size() != parts.size())
    each.error = fmt::format("rank {} wrote {} tensors instead of {}", rank,
                             shard.checksums.size(), parts.size());
  for (size_t p = 0; each.error.empty() && p < parts.size(); ++p)
    each.manifest.tensors[parts[p].tensor].chunks[parts[p].chunk].checksums =
        shard.checksums[p];
  each.manifest
      .files[static_cast<size_t>(layout.files[static_cast<size_t>(rank)])]
      .bytes = shard.bytes;
  each.bytes += shard.bytes;
  each.copySeconds = std::max(each.copySeconds, shard.copySeconds);
  each.writeSeconds = std::max(each.writeSeconds, shard.writeSeconds);
  if (++each.reports < writers)
    return;
  each.manifest.metrics = metrics[shard.step];
  metrics.erase(metrics.begin(), metrics.upper_bound(shard.step));
  each.manifest.evaluation = before;
  if (auto next = evaluations.upper_bound(shard.step);
      next != evaluations.begin()) {
    each.manifest.evaluation = std::prev(next)->second;
    evaluations.erase(evaluations.begin(), std::prev(next));
  }
  // An evaluation of an earlier step may still change one of the latest
  // manifests.
  constexpr size_t remembered = 4;
  given[shard.step] = each.manifest;
  if (given.size() > remembered)
    given.erase(given.begin());
  thread.push(std::move(each));
  pending.erase(place);
}

void Committer::tick(Progress &progress) {
  for (const CommitThread::Outcome &outcome : thread.takeOutcomes()) {
    numEnded += !outcome.isAmended;
    if (outcome.isAmended) {
      // The checkpoint is intact, with its old manifest.
    } else if (outcome.error.empty()) {
      failure.reset();
      committed = outcome.report.step;
      progress.checkpoint(outcome.report);
    } else {
      failure = outcome.error;
      progress.warn(fmt::format(
          "the checkpoint of step {} could not be written: {}; {}",
          outcome.report.step, outcome.error,
          committed ? fmt::format("that of step {} is whole", committed)
                    : "those before are as they were"));
    }
    if (!outcome.warning.empty() && !std::exchange(hasWarned, true))
      progress.warn(outcome.warning);
  }
}

bool Committer::finish(Progress &progress,
                       const std::function<bool()> &givesUp) {
  if (!thread.awaitAll(givesUp))
    return false;
  for (auto &[step, each] : pending)
    if (Result<void> removed =
            removeUnfinished(files, unfinishedPath(options.folder, step, run));
        !removed)
      progress.warn(removed.error().message);
  pending.clear();
  tick(progress);
  return true;
}

} // namespace polyrank::runtime
