// The course of a run: start, attempts, and what the ranks report.

#include "runtime/session/Run.h"

#include "runtime/plan/StepTimeline.h"
#include "runtime/report/Messages.h"
#include "runtime/session/NotFinite.h"
#include "support/Failpoint.h"
#include "support/Json.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace polyrank::runtime {

Result<void> Run::run() {
  EndSignals::endAtOnce();
  if (Result<void> done = Preparation::run(); !done)
    return done;
  // All that a run has done that goes on is in its checkpoint.
  if (resumed)
    EndSignals::endAtOnce(Error::Fault::Preempted);
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
  failpoint("launch.before");
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
  if (std::string warning = data ? data->findUnshifted() : ""; !warning.empty())
    tell("polyrank-run: " + warning + "\n");

  local::JobOptions jobOptions;
  jobOptions.ranks = int(report.ranks);
  // A rehearsal sleeps: it needs no cores, and must not claim any.
  int threads = times ? 1 : int(report.threads);
  Binding binding = times ? Binding::None : Binding::Core;
  jobOptions.threadsPerRank = threads + options.commThreads;
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
    launch.timeout = std::chrono::milliseconds(int64_t(1e3 * *options.timeout));
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
    else if (message.contains("stuck"))
      takeStuck(rank, message["stuck"]);
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
    tell(fmt::format("polyrank-run: {} came when all steps were done; the run "
                     "is complete\n",
                     strsignal(signal)));
  if (!logged)
    return logged;
  std::string text;
  if (options.json)
    text = toText(reportOf(report, *mesh, *progress, uses, files(),
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

RunFiles Run::files() const {
  return {
      options.plan,        fmt::format("{}", fmt::join(options.samples(), ",")),
      options.init,        options.save,
      options.saveTrained, options.saveEma,
      options.outputs,     options.log,
      options.profile,     options.trace,
      options.rehearse};
}

Attempt Run::howFar(bool fromOutside) const {
  uint64_t before = page->facts().step;
  uint64_t begun = std::max(page->lastBegun(), before + 1);
  return {begun - 1 - before, begun - 1, hasBegunStep(), fromOutside};
}

Result<void> Run::forgetAttempt() {
  makeCollector();
  evaluated.clear();
  stuck.clear();
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
  return window ? window->clear() : Result<void>();
}

void Run::take(int rank, StepReport report) {
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

void Run::takeStuck(int rank, const nlohmann::json &message) {
  constexpr uint32_t none = ~0u;
  const nlohmann::json &stored = message.at("stored");
  stuck.emplace_back(stored.is_null() ? none : stored.get<uint32_t>(), rank);
  if (int64_t(stuck.size()) < report.ranks || notFinite)
    return;
  auto [first, holder] = *std::min_element(stuck.begin(), stuck.end());
  std::string where =
      first == none
          ? "the norm of all gradients"
          : fmt::format("the gradient of '{}' on {}",
                        plan->plan->stored()->Get(first)->name()->str(),
                        mesh->describeRank(holder));
  notFinite =
      describeStuck(options, *plan->plan, message.value("step", uint64_t(0)),
                    where, data ? &*data : nullptr, dataState.origin);
  job->abort(notFinite->message);
}

Result<void> Run::launchAll(LaunchOptions &launch,
                            const local::JobOptions &jobOptions,
                            const EndSignals &signals) {
  for (;;) {
    damage.clear();
    LaunchEnd end;
    {
      // Each attempt has shared memory of its own, which is gone before the
      // next attempt's is created.
      POLYRANK_ASSIGN(created, local::createJob(jobOptions));
      POLYRANK_ASSIGN(memory, createMemory());
      Job::AbortHook wakes = created->onAbort([&memory] {
        for (const shm::Memory &each : memory)
          each.wakeSleepers();
      });
      launch.descriptors = descriptorsWith(memory);
      job = created.get();
      launch.attempt = restarts.count() + 1;
      end = launchRanks(launch, *created, signals);
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

} // namespace polyrank::runtime
