// Which checkpoint the ranks begin from, and when they save.

#include "runtime/session/RunCheckpoints.h"

#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/report/Messages.h"
#include "runtime/session/Resume.h"
#include "runtime/session/RunStart.h"
#include "support/Version.h"

#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace polyrank::runtime {

RunCheckpoints::RunCheckpoints(Prepared &run, RunPage &page, Progress &progress)
    : run(run), page(page), progress(progress) {
  if (!run.checkpoint || !run.isWriter())
    return;
  CheckpointLayout layout = *run.checkpoint;
  layout.manifest.seed = run.options.seed;
  layout.manifest.program = fmt::format("polyrank-run {}", versionText);
  layout.manifest.model = run.report.model;
  layout.manifest.planHash = run.report.hash;
  layout.manifest.mesh = run.report.mesh;
  layout.manifest.data = run.dataState;
  committer.emplace(
      run.options.checkpoints, std::move(layout), files, [&run](uint64_t step) {
        return run.evaluation && isEvaluated(run.options, step, run.steps);
      });
}

Result<void> RunCheckpoints::begin() {
  RunPage::Facts &facts = page.facts();
  facts.step = run.stepsBefore();
  page.startAfter(run.stepsBefore());
  // Ranks that load an older checkpoint have not done the requested saves.
  endedBefore = requests = committer ? committer->ended() : 0;
  lastRequest = std::chrono::steady_clock::now();
  facts.origin = run.dataState.origin;
  facts.evaluation = run.evaluationsBefore().value_or(ManifestEvaluation());
  facts.evaluatesAgain = run.isToEvaluate();
  if (committer) {
    if (Result<void> ours = takeFolder(); !ours)
      return ours;
    committer->beginWith(facts.run, owner ? &*owner : nullptr,
                         run.resumed ? &*run.resumed : nullptr,
                         run.evaluationsBefore());
  }
  facts.resetOptimizer = run.options.checkpoints.resetOptimizer;
  POLYRANK_ASSIGN(atOnce, savesAtOnce());
  facts.savesAtOnce = atOnce;
  std::string path = run.resumed ? run.resumed->path : "";
  if (path.size() >= sizeof(facts.resume))
    return Error{fmt::format("--resume: the path '{}' is too long", path)};
  std::memset(facts.resume, 0, sizeof(facts.resume));
  std::memcpy(facts.resume, path.data(), path.size());
  return {};
}

Result<void> RunCheckpoints::takeFolder() {
  const std::string &folder = run.options.checkpoints.folder;
  if (!run.isShared()) {
    // A run of several machines that this one has replaced finds no owner.
    std::string path = FolderOwner::pathIn(folder);
    return access(path.c_str(), F_OK) == 0 ? files.removeFile(path)
                                           : Result<void>();
  }
  if (!owner)
    owner.emplace(folder);
  if (Result<void> ours = owner->take(static_cast<uint64_t>(page.facts().run));
      !ours)
    return ours;
  // Ranks of other machines may have ended after `finish`.
  removeUnfinished();
  return {};
}

void RunCheckpoints::removeUnfinished() {
  if (owner && !owner->check())
    return;
  if (Result<void> removed =
          removeLeftovers(files, run.options.checkpoints.folder);
      !removed)
    progress.warn(removed.error().message);
}

Result<bool> RunCheckpoints::savesAtOnce() const {
  if (!run.checkpoint || !run.resumed || run.steps != run.stepsBefore())
    return false;
  Result<FoundCheckpoint> there =
      openCheckpoint(checkpointPath(run.options.checkpoints.folder, run.steps));
  if (!there && !isDamage(there.error()))
    return there.error();
  return !there;
}

Result<void> RunCheckpoints::takeNewest() {
  if (!run.checkpoint)
    return {};
  CheckpointOptions &options = run.options.checkpoints;
  POLYRANK_ASSIGN(choice, newestCheckpoint(options.folder));
  for (const std::string &reason : choice.damaged)
    tell(fmt::format("polyrank-run: passed over, for an older checkpoint: "
                     "{}\n",
                     reason));
  if (choice.found && choice.found->manifest.step > run.stepsBefore()) {
    run.resumed = std::move(choice.found);
    // The checkpoint is this run's own, with its optimizer and data.
    options.resume = options.folder;
    options.resetOptimizer = false;
    options.resetData = false;
    if (Result<void> same =
            continueData(run.options, *run.resumed, run.dataState);
        !same)
      return same;
  }
  tellResumed(run);
  return {};
}

Result<void> RunCheckpoints::takeOlder(const std::string &damage) {
  CheckpointOptions &options = run.options.checkpoints;
  tell(fmt::format("polyrank-run: passed over, for an older checkpoint: {}\n",
                   damage));
  // This run will reach the checkpoint's step again.
  if (run.checkpoint &&
      run.resumed->path == checkpointPath(options.folder, run.stepsBefore()))
    if (Result<void> aside = setAside(files, run.resumed->path); !aside)
      return aside;
  POLYRANK_ASSIGN(chosen, findResumed(options, run.stepsBefore()));
  if (!chosen)
    return Error{damage};
  run.resumed = std::move(chosen);
  if (Result<void> fits =
          checkResume(*run.plan->plan, *run.resumed, options.resetOptimizer);
      !fits)
    return fits;
  if (Result<void> same =
          continueData(run.options, *run.resumed, run.dataState);
      !same)
    return same;
  if (Result<void> earlier =
          progress.startAfter(run.stepsBefore(), run.isToEvaluate());
      !earlier)
    return earlier;
  if (committer)
    committer->setOrigin(run.dataState.origin);
  tellResumed(run);
  return {};
}

void RunCheckpoints::setInexact(const std::string &feed) {
  if (run.dataState.order == inexactFeedOrder)
    return;
  run.dataState.order = inexactFeedOrder;
  if (committer)
    committer->setOrder(inexactFeedOrder);
  progress.warn(fmt::format(
      "{} does not say with which sample it begins, so the run does not go on "
      "exactly where it was, and its checkpoints say 'not exact'; "
      "polyrank.feed() with a function of the first sample does",
      feed));
}

void RunCheckpoints::note(const StepReport &step) {
  if (committer)
    committer->note(step.step, step.metrics);
}

void RunCheckpoints::note(const EvaluationReport &report,
                          const ManifestEvaluation &state) {
  if (committer)
    committer->evaluated(state, report.metrics);
}

void RunCheckpoints::take(int rank, const ShardReport &shard) {
  if (committer)
    committer->take(rank, shard);
}

void RunCheckpoints::noteSkipped(uint64_t step) {
  ++numSkipped;
  uint64_t power = 1;
  while (power < numSkipped)
    power *= 10;
  if (power == numSkipped)
    progress.warn(fmt::format(
        "the checkpoint of step {} is skipped ({} so far): two before it are "
        "not on the disk yet; --every is more often than the disk can",
        step, numSkipped));
}

void RunCheckpoints::tick() {
  if (!committer)
    return;
  committer->tick(progress);
  page.setEndedSaves(committer->ended() - endedBefore);
  auto now = std::chrono::steady_clock::now();
  std::chrono::seconds every(run.options.checkpoints.everySeconds);
  // A save is not requested before all ranks have done the previous one.
  if (every.count() > 0 && committer->ended() >= requests &&
      now - lastRequest >= every) {
    page.requestSave();
    lastRequest = now;
    ++requests;
  }
}

Result<void> RunCheckpoints::finish(const EndSignals &signals, bool hasFailed) {
  if (!committer)
    return {};
  auto givesUp = [&] {
    int before = signals.latest();
    for (int signal; (signal = signals.take()); before = signal)
      if (before && signal == SIGINT)
        return true;
    return false;
  };
  abandoned = !committer->finish(progress, givesUp);
  if (abandoned)
    return Error{fmt::format("interrupted by signal {} ({}) while the launcher "
                             "waited for the disk to take a checkpoint",
                             SIGINT, strsignal(SIGINT)),
                 Error::Fault::Rank};
  if (hasFailed)
    removeUnfinished();
  return {};
}

std::optional<std::string> RunCheckpoints::lastFailure() const {
  return committer ? committer->lastFailure() : std::nullopt;
}

std::string RunCheckpoints::describeKept() const {
  bool hasNew = committer && committer->lastStep();
  uint64_t step = hasNew           ? committer->lastStep()
                  : run.checkpoint ? run.stepsBefore()
                                   : 0;
  return step ? fmt::format("; go on from step {} with --resume {}", step,
                            hasNew ? run.options.checkpoints.folder
                                   : run.resumed->path)
              : "";
}

} // namespace polyrank::runtime
