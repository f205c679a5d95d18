// polyrank-run checks the user's input, starts the ranks and shows their
// progress. The ranks run the same program (Rank.cpp).

#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/launch/OtherLaunchers.h"
#include "runtime/launch/Restarts.h"
#include "runtime/plan/StepTimeline.h"
#include "runtime/report/LogFile.h"
#include "runtime/report/Messages.h"
#include "runtime/report/RankSteps.h"
#include "runtime/report/RunReport.h"
#include "support/Failpoint.h"
#include "support/Json.h"
#include "support/Version.h"
#include "support/arrays/Npz.h"
#include "tools/polyrank-run/Committer.h"
#include "tools/polyrank-run/Prepare.h"
#include "tools/polyrank-run/Rank.h"
#include "tools/polyrank-run/RunPage.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

class Run : Preparation {
public:
  /// `hasBegun` becomes true once all input that precedes the run has been
  /// read.
  Run(const RunOptions &given, bool &hasBegun)
      : Preparation(given), hasBegun(hasBegun), restarts(given.restarts) {}

  Result<void> run() {
    EndSignals::endAtOnce();
    if (Result<void> done = Preparation::run(); !done)
      return done;
    hasBegun = true;
    ProgressOptions shown;
    shown.quiet = options.quiet;
    shown.log = options.log;
    shown.tensorboard = options.tensorboard;
    shown.run = recordOf({options.plan, options.commandLine, options.seed,
                          stepsBefore() + 1, steps},
                         report);
    shown.steps = steps;
    shown.stepsBefore = stepsBefore();
    shown.evaluatesAgain = isToEvaluate();
    shown.endsAtNan = !options.allowNan;
    shown.isRehearsal = times.has_value();
    POLYRANK_ASSIGN(opened, Progress::open(report, shown));
    progress = std::move(opened);
    makeCollector();
    POLYRANK_ASSIGN(rates, ratesOf(options, *plan->plan));
    if (!options.quiet) {
      tell(describeStart(report));
      if (data)
        tell(data->describe() + "\n");
      tellResumed();
    }
    if (uint64_t total = rates.getTotal(); total && steps > total)
      tell(fmt::format("polyrank-run: --steps {} is more than the {} steps "
                       "that the learning rate's schedule is for (total={}); "
                       "it stays as it is then\n",
                       steps, total, total));
    POLYRANK_ASSIGN(links, linksOf(options, *plan->plan));
    if (std::string text = links.describe(); !text.empty() && !options.quiet)
      tell(text + "\n");
    if (times) {
      rehearsedSeconds =
          1e-12 *
          static_cast<double>(
              planTimelineOf(*plan, links.timesOver(*times, *plan)).makespan);
      if (!options.quiet)
        tell(fmt::format(
            "--rehearse {}: nothing is computed, no weights are read and there "
            "is no loss; by these times{} a step takes {:.2f} ms\n",
            options.rehearse,
            options.links.empty() ? ", if communication takes no time,"
                                  : " and links",
            1e3 * *rehearsedSeconds));
    }
    if (options.commThreads != 0 && !options.quiet)
      tell(fmt::format("--comm-threads {}: so many threads of each rank move "
                       "what is in flight\n",
                       options.commThreads));
    if (std::string warning = data ? data->findUnshifted() : "";
        !warning.empty())
      tell("polyrank-run: " + warning + "\n");

    shm::JobOptions jobOptions;
    for (int64_t rank = 0; rank < report.ranks; ++rank)
      jobOptions.sharedSizes.push_back(report.programOf(rank).sharedBytes);
    // A rehearsal sleeps: it needs no cores, and must not claim any.
    int threads = times ? 1 : int(report.threads);
    Binding binding = times ? Binding::None : Binding::Core;
    jobOptions.threadsPerRank = threads + options.commThreads;
    jobOptions.program = plan->bytes.hash;
    POLYRANK_ASSIGN(cores,
                    chooseCores(int(report.ranks), threads, options.commThreads,
                                options.binding.value_or(binding),
                                options.binding.has_value()));
    jobOptions.alone = cores.alone && !times;
    if (!cores.note.empty() && !options.quiet)
      tell(cores.note + "\n");
    POLYRANK_ASSIGN(signals, EndSignals::block());
    if (Result<void> prepared = prepareCheckpoints(); !prepared)
      return prepared;

    uses.resize(report.ranks);
    LaunchOptions launch;
    launch.ranks = int(report.ranks);
    launch.threads = threads;
    launch.cores = std::move(cores);
    launch.arguments = options.arguments;
    launch.finishesStep = checkpoint.has_value();
    if (options.timeout)
      launch.timeout =
          std::chrono::milliseconds(int64_t(1e3 * *options.timeout));
    launch.nameOf = [&](int rank) { return mesh->describeRank(rank); };
    launch.placeOf = [&](int rank, uint32_t number) {
      return describeCommand(plan->program(programOf(*plan->plan, *mesh, rank)),
                             number);
    };
    launch.onWarning = [&](const std::string &text) { progress->warn(text); };
    launch.onReport = [&](int rank, const nlohmann::json &message) {
      if (message.contains("rank_step"))
        collector->add(rank, rankStepFromJson(message["rank_step"]));
      if (message.contains("step"))
        take(rank, stepFromJson(message["step"]));
      else if (message.contains("ready"))
        progress->ready(readyFromJson(message["ready"]));
      else if (message.contains("saving"))
        progress->saving(saveFromJson(message["saving"]));
      else if (message.contains("shard") && committer)
        committer->take(rank, shardFromJson(message["shard"]));
      else if (message.contains("damaged"))
        damage = message["damaged"].get<std::string>();
      else if (message.contains("eval"))
        takeEvaluation(evaluationFromJson(message["eval"]));
      else if (message.contains("patience"))
        progress->stopped(message["patience"]);
      else if (message.contains("skipped_save"))
        noteSkipped(message["skipped_save"]);
      else if (message.contains("kept"))
        isKept = true;
      else if (message.contains("traced_steps"))
        tracedSteps = message["traced_steps"];
      else if (message.contains("use"))
        uses[rank] = useFromJson(message["use"]);
      for (const StepReport &step : collector->takeWhole())
        finish(step);
    };
    launch.onTick = [&] { tickCheckpoints(); };
    Result<void> ran = launchAll(launch, jobOptions, signals);
    for (const StepReport &step : collector->takeRest())
      finish(step);
    if (!ran && ran.error().fault == Error::Fault::Preempted &&
        committer->lastFailure())
      ran = Error{fmt::format("{}, and its checkpoint could not be written: {}",
                              ran.error().message, *committer->lastFailure()),
                  Error::Fault::Disk};
    Result<void> logged = progress->close();
    if (!ran && isKept)
      for (SaveOutput &save : saveOutputs)
        if (Result<void> committed = save.commit(); !committed)
          return committed;
    if (!ran) {
      const Error &error = notFinite ? *notFinite : ran.error();
      return Error{progress->stepsDone()
                       ? fmt::format("{} (after {} steps{}{})", error.message,
                                     progress->stepsDone(),
                                     error.fault == Error::Fault::Preempted
                                         ? ""
                                         : keptFiles(),
                                     keptCheckpoint())
                       : error.message,
                   error.fault};
    }
    signals.letOne();
    if (Result<void> written = writeOutputs(); !written)
      return written;
    if (!options.quiet)
      summarise();
    if (int signal = EndSignals::late())
      tell(
          fmt::format("polyrank-run: {} came when all steps were done; the run "
                      "is complete\n",
                      strsignal(signal)));
    if (!logged)
      return logged;
    std::string text;
    if (options.json)
      text =
          toText(reportOf(report, *mesh, *progress, uses, files(),
                          options.links, rehearsedSeconds, restarts.count()));
    else if (plan->plan->mode() == plan::Mode::Forward && !options.quiet) {
      for (auto &[name, value] : progress->means())
        text += fmt::format("{} {:.6g} (mean over {} samples)\n", name, value,
                            progress->samples());
      for (auto &[name, value] : progress->totals())
        text += fmt::format("{} {} (of {} samples)\n", name, value,
                            progress->samples());
    }
    if (!print(text))
      return Error{fmt::format("cannot write to standard output: {}",
                               std::strerror(errno)),
                   Error::Fault::Rank};
    if (committer && committer->lastFailure())
      return Error{fmt::format("the checkpoint of the last step could not be "
                               "written: {}{}",
                               *committer->lastFailure(), keptCheckpoint()),
                   Error::Fault::Disk};
    return {};
  }

  /// The exit status of a run without an error.
  int status() const {
    return progress->meanLossIsNan() ? int(Error::Fault::NotFinite) : 0;
  }

  uint64_t stepsDone() const { return progress ? progress->stepsDone() : 0; }
  /// True if the user interrupted the wait for a thread that still writes to
  /// the disk.
  bool isAbandoned() const { return abandoned; }
  RunFiles files() const {
    return {options.plan,
            fmt::format("{}", fmt::join(options.samples(), ",")),
            options.init,
            options.save,
            options.saveTrained,
            options.saveEma,
            options.outputs,
            options.log,
            options.profile,
            options.trace,
            options.rehearse};
  }

private:
  void makeCollector() {
    collector.emplace(report.ranks, plan->programs(), options.measuresRanks());
  }

  void finish(const StepReport &step) { progress->step(step); }

  /// Judged by the step that a rank has begun, not by reports: a rank may die
  /// before another one's report of the previous step has arrived.
  Attempt howFar(bool fromOutside) const {
    uint64_t before = page->facts().step;
    uint64_t begun = std::max(page->lastBegun(), before + 1);
    return {begun - 1 - before, begun - 1, hasBegunStep(), fromOutside};
  }
  bool hasBegunStep() const { return page->lastBegun() > page->facts().step; }

  /// Discards all results of a failed attempt, so that none gets into the files
  /// of the next one.
  Result<void> forgetAttempt() {
    makeCollector();
    evaluated.clear();
    uses.assign(uses.size(), {});
    progress->startAgain(restarts.count());
    isKept = false;
    for (SaveOutput &save : saveOutputs)
      if (Result<void> cleared = save.clear(); !cleared)
        return cleared;
    for (std::optional<OutputFile> *file : {&profileOutput, &traceOutput})
      if (*file)
        if (Result<void> cleared = (*file)->clear(); !cleared)
          return cleared;
    if (sharedMemory.get() >= 0 &&
        (ftruncate(sharedMemory.get(), 0) != 0 ||
         ftruncate(sharedMemory.get(), sharedMemoryBytes()) != 0))
      return Error{fmt::format("no memory for {} bytes to start again: {}",
                               sharedMemoryBytes(), std::strerror(errno)),
                   Error::Fault::Rank};
    return {};
  }

  /// Checks the loss once the first ranks of all programs have reported a step.
  void take(int rank, StepReport report) {
    std::optional<StepReport> step = collector->add(rank, std::move(report));
    if (!step)
      return;
    if (committer)
      committer->note(step->step, step->metrics);
    if (plan->programs() == 1 || notFinite)
      return;
    if (auto fault = findNotFinite(options, *plan->plan, *step,
                                   data ? &*data : nullptr, dataState.origin)) {
      notFinite = std::move(fault);
      job->abort(notFinite->message);
    }
  }

  /// Prepares the page that ranks and launcher share before the first step.
  Result<void> prepareCheckpoints() {
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

  /// Tells the ranks the identities of the files that they must find under the
  /// names in the options.
  Result<void> setIdentities() {
    RunPage::Facts &facts = page->facts();
    // A resumed run reads --init only for an evaluating plan.
    if (!options.init.empty() && !times &&
        (!resumed || !options.evalPlan.empty())) {
      POLYRANK_ASSIGN(set, SafetensorsSet::open(options.init));
      POLYRANK_ASSIGN(identity, set.identity());
      identity.copy(facts.init, sizeof(facts.init) - 1);
    }
    // The samples of --holdout are in the data, which have a fingerprint.
    if (evaluation && !options.evalData.empty()) {
      POLYRANK_ASSIGN(identity, identityOf(*evaluation));
      identity.copy(facts.evaluated, sizeof(facts.evaluated) - 1);
    }
    return {};
  }

  /// Tells the ranks from which checkpoint they begin.
  Result<void> setResumed() {
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

  /// Starts the ranks, and restarts them as long as that may help: from an
  /// older checkpoint if they find theirs damaged, from the newest one if they
  /// fail.
  Result<void> launchAll(LaunchOptions &launch,
                         const shm::JobOptions &jobOptions,
                         const EndSignals &signals) {
    for (;;) {
      damage.clear();
      LaunchEnd end;
      {
        // Each attempt has shared memory of its own, which is gone before the
        // next attempt's is created.
        POLYRANK_ASSIGN(created, shm::Job::create(jobOptions));
        POLYRANK_ASSIGN(evalJob, createEvaluationJob(jobOptions));
        launch.descriptors = descriptorsWith(evalJob);
        job = &created;
        launch.attempt = restarts.count() + 1;
        end = launchRanks(launch, created, signals);
        job = nullptr;
      }
      Result<void> &ran = end.result;
      if (Result<void> finished = finishCheckpoints(signals); !finished)
        return finished;
      // Removes what the ranks, which are gone, have left unfinished.
      if (!ran && checkpoint)
        if (Result<void> removed =
                removeLeftovers(diskFiles, options.checkpoints.folder);
            !removed)
          progress->warn(removed.error().message);
      if (ran || notFinite)
        return ran;
      // While ranks load a checkpoint, nothing is lost.
      if (end.signal && ran.error().fault == Error::Fault::Rank &&
          !hasBegunStep() && checkpoint && resumed)
        return Error{ran.error().message, Error::Fault::Preempted};
      // Whoever ends the run may also end its ranks: that is not their failure.
      if (end.signal && end.fromOutside && checkpoint &&
          ran.error().fault == Error::Fault::Rank)
        return Error{fmt::format("{}; interrupted by signal {} ({})",
                                 ran.error().message, end.signal,
                                 strsignal(end.signal)),
                     Error::Fault::Preempted};
      if (end.signal)
        return ran;
      if (!damage.empty() && resumesFromFolder(options.checkpoints)) {
        if (int signal = signals.latest())
          return endBetweenAttempts(signal, damage + "; ");
        if (Result<void> older = takeOlder(); !older)
          return older;
        continue;
      }
      Result<std::chrono::seconds> pause =
          restarts.after(ran.error(), howFar(end.fromOutside));
      if (!pause)
        return pause.error();
      if (int signal = signals.latest())
        return endBetweenAttempts(signal, ran.error().message + "; ");
      tell(fmt::format("polyrank-run: {}\npolyrank-run: all ranks start again "
                       "in {} s ({} of {} restarts)\n",
                       ran.error().message, pause->count(), restarts.count(),
                       options.restarts));
      if (int signal = signals.await(*pause))
        return endBetweenAttempts(signal);
      if (Result<void> ready = forgetAttempt(); !ready)
        return ready;
      if (Result<void> chosen = takeNewest(); !chosen)
        return chosen;
    }
  }

  /// Waits until the checkpoints that all ranks have written are committed.
  /// Schedulers may repeat their signals meanwhile; a SIGINT after another
  /// signal ends the wait.
  Result<void> finishCheckpoints(const EndSignals &signals) {
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

  /// Called while no rank runs. With checkpoints all that can be saved is
  /// saved.
  Error endBetweenAttempts(int signal, const std::string &why = "") const {
    return {fmt::format("{}interrupted by signal {} ({}) before the ranks were "
                        "started again",
                        why, signal, strsignal(signal)),
            checkpoint ? Error::Fault::Preempted : Error::Fault::Rank};
  }

  /// After a failure the ranks resume from the newest checkpoint that the run
  /// has made, or else from where they began.
  Result<void> takeNewest() {
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

  Result<void> takeOlder() {
    tell(fmt::format("polyrank-run: passed over, for an older checkpoint: {}\n",
                     damage));
    // This run will reach the checkpoint's step again.
    if (checkpoint &&
        resumed->path ==
            checkpointPath(options.checkpoints.folder, stepsBefore()))
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

  void tellResumed() const {
    if (resumed && !options.quiet)
      tell(fmt::format("going on from {}, after step {}\n", resumed->path,
                       stepsBefore()));
  }

  void tickCheckpoints() {
    if (!committer)
      return;
    committer->tick(*progress);
    page->setEndedSaves(committer->ended() - endedBefore);
    auto now = std::chrono::steady_clock::now();
    // A save is not requested before all ranks have done the previous one.
    if (options.checkpoints.everySeconds > 0 &&
        committer->ended() >= requests &&
        now - lastRequest >=
            std::chrono::seconds(options.checkpoints.everySeconds)) {
      page->requestSave();
      lastRequest = now;
      ++requests;
    }
  }

  /// Warns about the 1st, the 10th, the 100th .. skipped save.
  void noteSkipped(uint64_t step) {
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

  /// Returns the checkpoint from which the run can be resumed.
  std::string keptCheckpoint() const {
    uint64_t step = committer && committer->lastStep() ? committer->lastStep()
                    : checkpoint                       ? stepsBefore()
                                                       : 0;
    return step ? fmt::format("; go on from step {} with --resume {}", step,
                              committer->lastStep() ? options.checkpoints.folder
                                                    : resumed->path)
                : "";
  }

  /// Returns the descriptors that ranks inherit, in the order of JobFile.
  std::vector<int>
  descriptorsWith(const std::optional<shm::Job> &evalJob) const {
    auto numberOf = [](const std::optional<OutputFile> &file) {
      return file ? file->descriptor().get() : -1;
    };
    std::vector<int> all{
        planDescriptor.get(),    sharedMemory.get(),
        numberOf(profileOutput), numberOf(traceOutput),
        page->descriptor(),      evalPlanDescriptor.get(),
        evalMemory.get(),        evalJob ? evalJob->descriptors().control : -1};
    if (evalJob)
      for (int arena : evalJob->descriptors().arenas)
        all.push_back(arena);
    for (const SaveOutput &save : saveOutputs)
      for (const OutputFile &file : save.files())
        all.push_back(file.descriptor().get());
    return all;
  }

  /// Creates the shared memory of an evaluating plan, for the same processes.
  Result<std::optional<shm::Job>>
  createEvaluationJob(const shm::JobOptions &training) const {
    if (!evaluation || !evaluation->plan)
      return std::optional<shm::Job>();
    shm::JobOptions job = training;
    PlanReport own = reportOf(*evaluation->plan);
    job.sharedSizes.clear();
    for (int64_t rank = 0; rank < own.ranks; ++rank)
      job.sharedSizes.push_back(own.programOf(rank).sharedBytes);
    job.program = evaluation->plan->bytes.hash;
    POLYRANK_ASSIGN(made, shm::Job::create(job));
    return std::optional<shm::Job>(std::move(made));
  }

  /// An evaluation is done once the first ranks of all programs have reported
  /// it.
  void takeEvaluation(EvaluationReport report) {
    auto &[whole, count] = evaluated[report.step];
    if (count == 0)
      whole = std::move(report);
    else
      whole.add(report);
    if (++count < evaluation->planOr(*plan).programs()->size())
      return;
    // Without a loss no evaluation is the best.
    auto loss = std::find_if(
        whole.metrics.begin(), whole.metrics.end(),
        [](const auto &metric) { return metric.first == "eval_loss"; });
    patience.add(whole.step, loss == whole.metrics.end()
                                 ? std::numeric_limits<double>::quiet_NaN()
                                 : loss->second);
    if (committer)
      committer->evaluated(patience.state(), whole.metrics);
    progress->evaluated(whole);
    evaluated.erase(whole.step);
  }

  /// A run that resets the optimizer or the samples is a new one: losses of the
  /// earlier run do not count.
  bool isAnotherRun() const {
    return options.checkpoints.resetOptimizer || options.checkpoints.resetData;
  }

  /// The result of the evaluations up to the checkpoint from which the run
  /// resumes.
  std::optional<ManifestEvaluation> evaluationsBefore() const {
    return resumed && !isAnotherRun() ? resumed->manifest.evaluation
                                      : std::nullopt;
  }

  /// True if the ranks evaluate before the first step.
  bool isToEvaluate() const {
    return evaluation && resumed && !isAnotherRun() &&
           evaluatesAgain(options, resumed->manifest, steps);
  }

  /// Describes what a run that ended early has not written.
  std::string keptFiles() const {
    if (!options.savesAny())
      return "";
    std::string kept;
    for (const SaveOutput &save : saveOutputs)
      for (const OutputFile &file : save.files())
        if (isKept)
          kept += fmt::format("; '{}' has the weights after step {}",
                              file.path(), progress->stepsDone());
        else if (access(file.path().c_str(), F_OK) == 0)
          kept += fmt::format("; '{}' is as it was", file.path());
    return kept.empty() ? "; nothing is saved" : kept;
  }

  /// Commits the files that the ranks have written, and writes the other
  /// outputs.
  Result<void> writeOutputs() {
    for (SaveOutput &save : saveOutputs)
      if (Result<void> committed = save.commit(); !committed)
        return committed;
    for (std::optional<OutputFile> *file : {&profileOutput, &traceOutput})
      if (*file)
        if (Result<void> committed = (*file)->commit(); !committed)
          return committed;
    return npzOutput ? writeArrays() : Result<void>();
  }

  /// Writes --outputs: the tensors that the ranks have assembled, and the
  /// printed mean of each scalar output.
  Result<void> writeArrays() {
    NpzWriter writer(*std::move(npzOutput));
    if (!outputs.empty()) {
      uint64_t size = outputs.back().offset + outputs.back().bytes;
      void *memory =
          mmap(nullptr, size, PROT_READ, MAP_SHARED, sharedMemory.get(), 0);
      if (memory == MAP_FAILED)
        return Error{"cannot map the outputs", Error::Fault::Rank};
      Result<void> added;
      for (const OutputArray &output : outputs) {
        auto *data = static_cast<const std::byte *>(memory) + output.offset;
        if (added)
          added = writer.add(output.name, output.dtype, output.shape,
                             {data, output.bytes});
      }
      munmap(memory, size);
      if (!added)
        return added;
    }
    for (auto &[name, value] : progress->means())
      if (Result<void> added = writer.add(name, DType::F64, {},
                                          std::as_bytes(std::span(&value, 1)));
          !added)
        return added;
    return writer.commit();
  }

  void summarise() const {
    tell(describeEnd(report, *mesh, uses));
    if (rehearsedSeconds)
      tell(fmt::format(
          "rehearsed: a step took {:.2f} ms, and at least {:.2f}; by times and "
          "links {:.2f}, of which {:.2f} ms are {:.3f} times as long\n",
          1e3 * progress->secondsPerStep(),
          1e3 * progress->leastSecondsPerStep(), 1e3 * *rehearsedSeconds,
          1e3 * progress->secondsPerStep(),
          progress->secondsPerStep() / std::max(*rehearsedSeconds, 1e-12)));
    if (!progress->checkpoints().empty()) {
      const CheckpointReport &last = progress->checkpoints().back();
      tell(fmt::format("checkpoints: {}{}, the last one {} ({})\n",
                       progress->checkpoints().size(),
                       skipped ? fmt::format(" ({} skipped)", skipped) : "",
                       last.path, bytesText(last.bytes)));
    }
    for (const SaveReport &saved : progress->saved())
      tell(fmt::format(
          "saved {} ({} in {:.2f} s, {}/s)\n", saved.path,
          bytesText(saved.bytes), saved.seconds,
          bytesText(static_cast<uint64_t>(static_cast<double>(saved.bytes) /
                                          std::max(saved.seconds, 1e-9)))));
    if (!options.outputs.empty()) {
      uint64_t all = data->samples(splitOf(options, *plan->plan)),
               some = outputSamplesOf(options, *plan->plan, *data);
      tell(some < all ? fmt::format("wrote {}: {} of {} samples (--steps {})\n",
                                    options.outputs, some, all, options.steps)
                      : fmt::format("wrote {}\n", options.outputs));
    }
    if (!options.profile.empty())
      tell(fmt::format("wrote {}\n", options.profile));
    if (!options.trace.empty())
      tell(tracedSteps < progress->stepsDone()
               ? fmt::format("wrote {}: the first {} of {} steps, which is as "
                             "much as a trace holds\n",
                             options.trace, tracedSteps, progress->stepsDone())
               : fmt::format("wrote {}\n", options.trace));
  }

  bool &hasBegun;
  std::unique_ptr<Progress> progress;
  const shm::Job *job = nullptr; // while it runs
  FileOperations diskFiles;      // of checkpoints
  std::optional<RunPage> page;
  std::optional<Committer> committer;
  std::string damage; // found by a rank in the checkpoint
  std::chrono::steady_clock::time_point lastRequest; // of a save
  uint64_t requests = 0, endedBefore = 0; // `endedBefore`: before this attempt
  uint64_t skipped = 0;                   // saves that were skipped: slow disk
  std::optional<double> rehearsedSeconds; // of a step, by times and links
  std::vector<RankUse> uses;
  std::optional<StepCollector> collector;
  Restarts restarts;
  std::optional<Error> notFinite; // the NaN loss that ended the job
  uint64_t tracedSteps = 0;
  std::map<uint64_t, std::pair<EvaluationReport, uint32_t>> evaluated;
  Patience patience{0}; // knows all evaluations so far
  bool isKept = false;  // weights are kept despite a data error
  bool abandoned = false;
};

/// Prints the results of --check. Returns the exit status.
int checkMain(const RunOptions &options) {
  std::vector<CheckLine> lines = Preparation(options).checkAll();
  bool ok = std::all_of(lines.begin(), lines.end(),
                        [](const CheckLine &line) { return line.holds; });
  std::string text;
  if (options.json) {
    nlohmann::ordered_json report = newReport("check");
    report["status"] = ok ? "ok" : "error";
    report["checks"] = nlohmann::ordered_json::array();
    for (const CheckLine &line : lines)
      report["checks"].push_back(
          {{"check", line.name}, {"holds", line.holds}, {"text", line.text}});
    text = toText(report);
  } else {
    for (const CheckLine &line : lines)
      text += fmt::format("{:<7} {:<5} {}\n", line.name,
                          line.holds ? "ok" : "WRONG", line.text);
  }
  if (!print(text)) {
    tell(fmt::format("polyrank-run: cannot write to standard output: {}\n",
                     std::strerror(errno)));
    return 2;
  }
  return ok ? 0 : 1;
}

int launcherMain(const RunOptions &options) {
  bool hasBegun = false;
  try {
    Result<void> result = checkStartedOnce(std::getenv);
    if (result && options.check)
      return checkMain(options);
    Run run(options, hasBegun);
    if (result)
      result = run.run();
    if (result)
      return run.status();
    tell(fmt::format("polyrank-run: {}\n", result.error().message));
    if (options.json)
      print(toText(
          reportOfFailure(result.error(), run.stepsDone(), run.files())));
    if (run.isAbandoned()) { // its thread cannot be joined
      finishTelling();
      std::_Exit(int(result.error().fault));
    }
    return int(result.error().fault);
  } catch (const std::exception &exception) {
    tell(fmt::format("polyrank-run: {}\n", describe(exception)));
    // A file whose reading exhausts memory is invalid input.
    bool isInput =
        !hasBegun && dynamic_cast<const std::bad_alloc *>(&exception);
    return int(isInput ? Error::Fault::Input : Error::Fault::Rank);
  }
}

/// Raises the limit of open files: a run may have thousands of data files, and
/// the default limit is 1024 although the system allows more. Ranks inherit it.
void allowOpenFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace
} // namespace polyrank::runtime

int main(int argc, char **argv) {
  using namespace polyrank::runtime;
  takeStandardDescriptors();
  polyrank::failpoint("start");
  // A file that reaches the limit of `ulimit -f`, and a reader that is gone,
  // become write errors instead of signals.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  allowOpenFiles();
  std::variant<RunOptions, int> options = parseOptions(argc, argv);
  if (const int *status = std::get_if<int>(&options))
    return *status;
  if (auto connection = RankConnection::fromEnvironment())
    return rankMain(std::get<RunOptions>(options), *connection);
  int status = launcherMain(std::get<RunOptions>(options));
  finishTelling();
  return status;
}
