// What the launcher does with checkpoints: which one the ranks begin from, and
// when they save.

#include "runtime/session/Run.h"

#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/report/Messages.h"
#include "support/Json.h"
#include "support/Version.h"

#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace polyrank::runtime {

Result<void> Run::prepareCheckpoints() {
  POLYRANK_ASSIGN(created, RunPage::create());
  page.emplace(std::move(created));
  page->facts().run = getpid();
  if (data) {
    POLYRANK_ASSIGN(fingerprint, fingerprintOf(*data, *plan->plan));
    fingerprint.copy(page->facts().data, sizeof(page->facts().data) - 1);
  }
  if (Result<void> set = setIdentities(); !set)
    return set;
  if (Result<void> set = setResumed(); !set)
    return set;
  if (!checkpoint)
    return {};
  CheckpointLayout layout = *checkpoint;
  layout.manifest.seed = options.seed;
  layout.manifest.program = fmt::format("polyrank-run {}", versionText);
  layout.manifest.model = report.model;
  layout.manifest.planHash = report.hash;
  layout.manifest.mesh = report.mesh;
  layout.manifest.data = dataState;
  committer.emplace(options.checkpoints, std::move(layout), page->facts().run,
                    diskFiles, [this](uint64_t step) {
                      return evaluation && isEvaluated(options, step, steps);
                    });
  committer->beginWith(resumed ? &*resumed : nullptr, evaluationsBefore());
  lastRequest = std::chrono::steady_clock::now();
  return {};
}

Result<void> Run::setIdentities() {
  RunPage::Facts &facts = page->facts();
  // A resumed run reads --init only for an evaluating plan.
  if (!options.init.empty() && !times &&
      (!resumed || !options.evalPlan.empty())) {
    POLYRANK_ASSIGN(set, SafetensorsSet::open(options.init));
    POLYRANK_ASSIGN(identity, set.identity());
    identity.copy(facts.init, sizeof(facts.init) - 1);
  }
  if (data) {
    POLYRANK_ASSIGN(identity, identityOf(*data));
    identity.copy(facts.samples, sizeof(facts.samples) - 1);
  }
  // The samples of --holdout are in these.
  if (evaluation && !options.evalData.empty()) {
    POLYRANK_ASSIGN(identity, identityOf(*evaluation->data));
    identity.copy(facts.evaluated, sizeof(facts.evaluated) - 1);
  }
  return {};
}

Result<void> Run::setResumed() {
  RunPage::Facts &facts = page->facts();
  facts.step = stepsBefore();
  page->startAfter(stepsBefore());
  // Ranks that load an older checkpoint have not done the requested saves.
  endedBefore = requests = committer ? committer->ended() : 0;
  lastRequest = std::chrono::steady_clock::now();
  facts.origin = dataState.origin;
  facts.evaluation = evaluationsBefore().value_or(ManifestEvaluation());
  facts.evaluatesAgain = isToEvaluate();
  patience = Patience(options.patience, facts.evaluation);
  if (committer)
    committer->beginWith(resumed ? &*resumed : nullptr, evaluationsBefore());
  facts.resetOptimizer = options.checkpoints.resetOptimizer;
  facts.savesAtOnce = false;
  if (checkpoint && resumed && steps == stepsBefore()) {
    Result<FoundCheckpoint> there =
        openCheckpoint(checkpointPath(options.checkpoints.folder, steps));
    if (!there && !isDamage(there.error()))
      return there.error();
    facts.savesAtOnce = !there;
  }
  std::string path = resumed ? resumed->path : "";
  if (path.size() >= sizeof(facts.resume))
    return Error{fmt::format("--resume: the path '{}' is too long", path)};
  std::memset(facts.resume, 0, sizeof(facts.resume));
  std::memcpy(facts.resume, path.data(), path.size());
  return {};
}

Result<void> Run::finishCheckpoints(const EndSignals &signals) {
  if (!committer)
    return {};
  auto givesUp = [&] {
    int before = signals.latest();
    for (int signal; (signal = signals.take()); before = signal)
      if (before && signal == SIGINT)
        return true;
    return false;
  };
  abandoned = !committer->finish(*progress, givesUp);
  if (!abandoned)
    return {};
  return Error{fmt::format("interrupted by signal {} ({}) while the launcher "
                           "waited for the disk to take a checkpoint",
                           SIGINT, strsignal(SIGINT)),
               Error::Fault::Rank};
}

Error Run::endBetweenAttempts(int signal, const std::string &why) const {
  return {fmt::format("{}interrupted by signal {} ({}) before the ranks were "
                      "started again",
                      why, signal, strsignal(signal)),
          checkpoint ? Error::Fault::Preempted : Error::Fault::Rank};
}

Result<void> Run::takeNewest() {
  if (!checkpoint)
    return setResumed();
  const std::string &folder = options.checkpoints.folder;
  POLYRANK_ASSIGN(choice, newestCheckpoint(folder));
  for (const std::string &reason : choice.damaged)
    tell(fmt::format("polyrank-run: passed over, for an older checkpoint: "
                     "{}\n",
                     reason));
  if (choice.found && choice.found->manifest.step > stepsBefore()) {
    resumed = std::move(choice.found);
    // The checkpoint is this run's own, with its optimizer and data.
    options.checkpoints.resume = folder;
    options.checkpoints.resetOptimizer = false;
    options.checkpoints.resetData = false;
    if (Result<void> same = continueData(options, *resumed, dataState); !same)
      return same;
  }
  tellResumed();
  return setResumed();
}

Result<void> Run::takeOlder() {
  tell(fmt::format("polyrank-run: passed over, for an older checkpoint: {}\n",
                   damage));
  // This run will reach the checkpoint's step again.
  if (checkpoint && resumed->path == checkpointPath(options.checkpoints.folder,
                                                    stepsBefore()))
    if (Result<void> aside = setAside(diskFiles, resumed->path); !aside)
      return aside;
  POLYRANK_ASSIGN(chosen, findResumed(options.checkpoints, stepsBefore()));
  if (!chosen)
    return Error{damage};
  resumed = std::move(chosen);
  if (Result<void> fits = checkResume(*plan->plan, *resumed,
                                      options.checkpoints.resetOptimizer);
      !fits)
    return fits;
  if (Result<void> same = continueData(options, *resumed, dataState); !same)
    return same;
  if (Result<void> earlier =
          progress->startAfter(stepsBefore(), isToEvaluate());
      !earlier)
    return earlier;
  if (committer)
    committer->setOrigin(dataState.origin);
  tellResumed();
  return setResumed();
}

void Run::tellResumed() const {
  if (resumed && !options.quiet)
    tell(fmt::format("going on from {}, after step {}\n", resumed->path,
                     stepsBefore()));
}

void Run::tickCheckpoints() {
  if (!committer)
    return;
  committer->tick(*progress);
  page->setEndedSaves(committer->ended() - endedBefore);
  auto now = std::chrono::steady_clock::now();
  // A save is not requested before all ranks have done the previous one.
  if (options.checkpoints.everySeconds > 0 && committer->ended() >= requests &&
      now - lastRequest >=
          std::chrono::seconds(options.checkpoints.everySeconds)) {
    page->requestSave();
    lastRequest = now;
    ++requests;
  }
}

void Run::noteSkipped(uint64_t step) {
  ++skipped;
  uint64_t power = 1;
  while (power < skipped)
    power *= 10;
  if (power == skipped)
    progress->warn(fmt::format(
        "the checkpoint of step {} is skipped ({} so far): two before it are "
        "not on the disk yet; --every is more often than the disk can",
        step, skipped));
}

std::string Run::keptCheckpoint() const {
  uint64_t step = committer && committer->lastStep() ? committer->lastStep()
                  : checkpoint                       ? stepsBefore()
                                                     : 0;
  return step ? fmt::format("; go on from step {} with --resume {}", step,
                            committer->lastStep() ? options.checkpoints.folder
                                                  : resumed->path)
              : "";
}

} // namespace polyrank::runtime
