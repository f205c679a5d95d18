// Collects the ranks' reports, and commits in the background.

#include "runtime/session/Committer.h"

#include "runtime/checkpoint/Checksum.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace polyrank::runtime {

nlohmann::json toJson(const ShardReport &shard) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const std::vector<uint64_t> &each : shard.checksums) {
    nlohmann::json blocks = nlohmann::json::array();
    for (uint64_t checksum : each)
      blocks.push_back(toHex(checksum));
    tensors.push_back(std::move(blocks));
  }
  return {{"step", shard.step},
          {"bytes", shard.bytes},
          {"copy_seconds", shard.copySeconds},
          {"wait_seconds", shard.waitSeconds},
          {"write_seconds", shard.writeSeconds},
          {"checksums", std::move(tensors)},
          {"error", shard.error}};
}

ShardReport shardFromJson(const nlohmann::json &json) {
  ShardReport shard;
  shard.step = json.value("step", uint64_t(0));
  shard.bytes = json.value("bytes", uint64_t(0));
  shard.copySeconds = json.value("copy_seconds", 0.0);
  shard.waitSeconds = json.value("wait_seconds", 0.0);
  shard.writeSeconds = json.value("write_seconds", 0.0);
  shard.error = json.value("error", std::string());
  for (const nlohmann::json &tensor : json.at("checksums")) {
    std::vector<uint64_t> &blocks = shard.checksums.emplace_back();
    for (const nlohmann::json &block : tensor)
      blocks.push_back(checksumFromHex(block.get<std::string>()).value_or(0));
  }
  return shard;
}

Committer::Committer(const CheckpointOptions &options, CheckpointLayout planned,
                     int64_t run, FileOperations &files,
                     std::function<bool(uint64_t)> isEvaluated)
    : options(options), layout(std::move(planned)), run(run), files(files),
      isEvaluated(std::move(isEvaluated)) {
  for (const auto &parts : layout.parts)
    writers += !parts.empty();
  thread = std::thread([this] { work(); });
}

Committer::~Committer() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
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

void Committer::beginWith(const FoundCheckpoint *resumed,
                          const std::optional<ManifestEvaluation> &evaluation) {
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
  std::lock_guard lock(mutex);
  whole.insert(manifest.step);
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
    Pending again;
    again.manifest = manifest;
    again.isAmended = true;
    push(std::move(again));
  }
  if (!isGiven)
    note(evaluation.step, noted);
}

void Committer::push(Pending &&each) {
  {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(each));
  }
  changed.notify_all();
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
  push(std::move(each));
  pending.erase(place);
}

void Committer::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return ending || !queue.empty(); });
    if (queue.empty())
      return;
    Pending next = std::move(queue.front());
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

Committer::Outcome Committer::commit(Pending &&next) {
  auto start = std::chrono::steady_clock::now();
  const Manifest &manifest = next.manifest;
  if (next.isAmended) {
    Outcome outcome;
    outcome.isAmended = true;
    outcome.warning = amend(manifest);
    return outcome;
  }
  std::string unfinished = unfinishedPath(options.folder, manifest.step, run);
  Outcome outcome;
  outcome.report.step = manifest.step;
  outcome.report.path = checkpointPath(options.folder, manifest.step);
  outcome.report.bytes = next.bytes;
  outcome.report.copySeconds = next.copySeconds;
  if (!next.error.empty())
    outcome.error = next.error;
  else if (Result<void> done =
               commitCheckpoint(files, options.folder, unfinished, manifest);
           !done)
    outcome.error = done.error().message;
  outcome.report.writeSeconds =
      next.writeSeconds +
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  if (outcome.error.empty()) {
    whole.insert(manifest.step);
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

/// Replaces the manifest of a committed checkpoint. Returns a warning, or "".
std::string Committer::amend(const Manifest &manifest) {
  if (!whole.contains(manifest.step))
    return "";
  if (Result<void> amended = amendCheckpoint(files, options.folder, manifest);
      !amended)
    return fmt::format("{}; the checkpoint of step {} stays as it is, without "
                       "the evaluation after it",
                       amended.error().message, manifest.step);
  return tidy(manifest, true);
}

/// Applies the retention after a checkpoint is new, or has new metrics; with
/// `isFinal` it has all its metrics. Returns a warning, or "".
std::string Committer::tidy(const Manifest &manifest, bool isFinal) {
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

void Committer::tick(Progress &progress) {
  std::deque<Outcome> done;
  {
    std::lock_guard lock(mutex);
    done.swap(outcomes);
  }
  for (const Outcome &outcome : done) {
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
  {
    std::unique_lock lock(mutex);
    auto isIdle = [&] { return queue.empty() && !working; };
    while (!changed.wait_for(lock, std::chrono::milliseconds(100), isIdle))
      if (givesUp())
        return false;
  }
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
