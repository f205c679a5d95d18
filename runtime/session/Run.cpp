// The course of a run: start, attempts, and what the ranks report.

#include "runtime/session/Run.h"

#include "runtime/report/LogFile.h"
#include "runtime/report/Messages.h"
#include "runtime/session/Checks.h"
#include "runtime/session/JoinMachines.h"
#include "runtime/session/Preparation.h"
#include "runtime/session/RunStart.h"
#include "runtime/session/SharedStart.h"
#include "support/Failpoint.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <unistd.h>

namespace polyrank::runtime {

RunFiles filesOf(const SessionOptions &options) {
  return {
      options.plan,        fmt::format("{}", fmt::join(options.samples(), ",")),
      options.init,        options.save,
      options.saveTrained, options.saveEma,
      options.outputs,     options.log,
      options.profile,     options.trace,
      options.rehearse};
}

Result<void> Run::run() {
  EndSignals::endAtOnce();
  // Guests that come while the input is checked wait at the door.
  if (!given.guests.empty()) {
    POLYRANK_ASSIGN(opened, GuestDoor::open(given.guests));
    door.emplace(std::move(opened));
  }
  POLYRANK_ASSIGN(checked, Preparation(given).run());
  prepared.emplace(std::move(checked));
  // All that a run has done that goes on is in its checkpoint.
  if (prepared->resumed)
    EndSignals::endAtOnce(Error::Fault::Preempted);
  hasBegun = true;
  Result<void> ran = joinOthers();
  if (ran && !isUnusedSpare())
    ran = runPrepared();
  if (auto fewer = others ? others->fewer() : std::nullopt) {
    if (fewer->machine < fewer->machines)
      goOnWithFewer(*fewer);
    else
      tell("polyrank-run: the others go on without this machine\n");
    return {};
  }
  if (!ran && others)
    others->end({.machine = others->machine(),
                 .error = ran.error(),
                 .signal = signals ? signals->latest() : 0});
  return ran;
}

void Run::goOnWithFewer(const OtherMachines::Fewer &fewer) {
  SessionOptions &next = following.emplace(given);
  MachineOptions &machines = next.machines;
  next.plan = machines.plansIf.at(fewer.machines);
  machines.machines = next.place.machines = fewer.machines;
  machines.machine = next.place.machine = fewer.machine;
  machines.spares = next.place.spares = 0;
  machines.plansIf.erase(machines.plansIf.lower_bound(fewer.machines),
                         machines.plansIf.end());
  // Each start but the first was a restart, and this is another one.
  next.restarts -= std::min(next.restarts, others->starts());
  // Only machine 0 knows where another start would have begun; it is the newest
  // checkpoint of this run, if there is one.
  CheckpointOptions &checkpoint = next.checkpoints;
  Result<CheckpointChoice> newest = newestCheckpoint(checkpoint.folder);
  bool hasOne = !checkpoint.folder.empty() && newest && newest->found;
  if (hasOne) {
    checkpoint.resume = "auto";
    checkpoint.resetOptimizer = checkpoint.resetData = false;
  }
  tell(fmt::format("polyrank-run: goes on as machine {} of {} with {}\n",
                   fewer.machine, fewer.machines, next.plan));
  if (signals)
    signals->handBack(hasOne ? Error::Fault::Preempted : Error::Fault::Rank);
}

Result<void> Run::joinOthers() {
  if (!prepared->options.machines.isOneOfSeveral())
    return {};
  POLYRANK_ASSIGN(joined, joinMachines(*prepared));
  others = std::move(joined);
  if (isUnusedSpare())
    return {};
  // Machine 0 shows the progress of all ranks.
  if (!isWriter()) {
    prepared->options.quiet = true;
    prepared->options.log.clear();
    prepared->options.tensorboard.clear();
  }
  if (!prepared->isShared())
    return {};
  return settleStart(*prepared, *others, [] { return false; });
}

Result<void> Run::runPrepared() {
  if (Result<void> opened = openProgress(); !opened)
    return opened;
  POLYRANK_ASSIGN(launch, launchOptions());
  POLYRANK_ASSIGN(blocked, EndSignals::block());
  signals.emplace(std::move(blocked));
  if (Result<void> opened = openPage(); !opened)
    return opened;
  Result<void> ran = attempts->launchAll(std::move(launch));
  if (Result<void> finished = reports->finish(); ran && !finished)
    ran = finished;
  if (std::optional<std::string> why = checkpoints->lastFailure();
      why && !ran && ran.error().fault == Error::Fault::Preempted)
    ran = Error{fmt::format("{}, and its checkpoint could not be written: {}",
                            ran.error().message, *why),
                Error::Fault::Disk};
  closed = progress->close();
  if (!ran && reports->isKept())
    if (Result<void> committed = prepared->files->commitWeights(); !committed)
      return committed;
  if (!ran)
    return describeFailure(reports->failure() ? *reports->failure()
                                              : ran.error());
  signals->letOne();
  return prepared->files->commit(prepared->outputs, *progress);
}

Result<void> Run::openProgress() {
  const Prepared &run = *prepared;
  ProgressOptions shown;
  shown.quiet = run.options.quiet;
  shown.log = run.options.log;
  shown.tensorboard = run.options.tensorboard;
  shown.run =
      recordOf({run.options.plan, run.options.commandLine, run.options.seed,
                run.stepsBefore() + 1, run.knownSteps()},
               run.report);
  shown.steps = run.knownSteps();
  shown.stepsBefore = run.stepsBefore();
  shown.evaluatesAgain = run.isToEvaluate();
  shown.endsAtNan = !run.options.allowNan;
  shown.isRehearsal = run.times.has_value();
  POLYRANK_ASSIGN(opened, Progress::open(run.report, shown));
  progress = std::move(opened);
  tellStart(run);
  tellResumed(run);
  tellGuests();
  failpoint("launch.before");
  POLYRANK_ASSIGN(seconds, rehearsedSecondsOf(run));
  rehearsedSeconds = seconds;
  return tellNotes(run, rehearsedSeconds);
}

void Run::tellGuests() const {
  if (!door || prepared->options.quiet)
    return;
  RankRange here = prepared->here;
  int last = here.end() - 1;
  if (firstGuest() > 0)
    return tell(fmt::format("the tasks of {} on this machine are the ranks {} "
                            "to {}\n",
                            given.place.launcher, here.first, last));
  tell(fmt::format("polyrank-run: waits for {}, each started on this machine "
                   "by: polyrank-run --guest-of {} --rank {}\n",
                   last == 0 ? "one rank" : fmt::format("{} ranks", last + 1),
                   door->name(),
                   last == 0 ? "0" : fmt::format("I (0 to {})", last)));
}

Result<LaunchOptions> Run::launchOptions() {
  const Prepared &run = *prepared;
  const SessionOptions &options = run.options;
  LaunchOptions launch;
  launch.ranks = run.here.count;
  launch.firstRank = run.here.first;
  launch.window = run.files->windowData();
  // A rehearsal sleeps: it needs no cores, and must not claim any.
  launch.threads = run.times ? 1 : int(run.report.threads);
  // Tasks of a launcher have the cores that it gave them.
  Binding binding = run.times || options.place.hasTaskPerRank() ? Binding::None
                                                                : Binding::Core;
  POLYRANK_ASSIGN(cores,
                  chooseCores(launch.ranks, launch.threads, options.commThreads,
                              options.binding.value_or(binding),
                              options.binding.has_value()));
  if (!cores.note.empty() && !options.quiet)
    tell(cores.note + "\n");
  launch.cores = std::move(cores);
  launch.arguments = options.arguments;
  if (door) {
    launch.door = &*door;
    launch.guests.resize(size_t(launch.ranks - firstGuest()));
    std::iota(launch.guests.begin(), launch.guests.end(),
              launch.firstRank + firstGuest());
    launch.planHash = run.plan->bytes.sha256();
  }
  launch.others = others.get();
  launch.finishesStep = run.checkpoint.has_value();
  if (options.timeout)
    launch.timeout = std::chrono::milliseconds(int64_t(1e3 * *options.timeout));
  launch.nameOf = [&run](int rank) {
    std::string name = run.mesh->describeRank(rank);
    return run.isShared()
               ? fmt::format("{} on machine {}", name, rank / run.here.count)
               : name;
  };
  launch.placeOf = [&run](int rank, uint32_t number) {
    return describeCommand(
        run.plan->program(programOf(*run.plan->plan, *run.mesh, rank)), number);
  };
  launch.onWarning = [this](const std::string &text) { progress->warn(text); };
  launch.judge = [this] {
    return progress->meanLossIsNan() ? int(Error::Fault::NotFinite) : 0;
  };
  launch.onTick = [this] {
    checkpoints->tick();
    attempts->tick();
  };
  return std::move(launch);
}

Result<void> Run::openPage() {
  Prepared &run = *prepared;
  POLYRANK_ASSIGN(created, RunPage::create());
  page.emplace(std::move(created));
  // All ranks give it to the files that they have not finished.
  page->facts().run = run.isShared() ? numberOf(*others) : getpid();
  if (run.data) {
    POLYRANK_ASSIGN(fingerprint, fingerprintOf(*run.data, *run.plan->plan));
    fingerprint.copy(page->facts().data, sizeof(page->facts().data) - 1);
  }
  if (Result<void> set = setIdentities(); !set)
    return set;
  checkpoints.emplace(run, *page, *progress);
  reports.emplace(run, *progress, *checkpoints);
  attempts.emplace(run, *page, *progress, *checkpoints, *reports, *signals);
  return {};
}

Result<void> Run::setIdentities() {
  const Prepared &run = *prepared;
  RunPage::Facts &facts = page->facts();
  // A resumed run reads --init only for an evaluating plan.
  if (!run.options.init.empty() && !run.times &&
      (!run.resumed || !run.options.evalPlan.empty())) {
    POLYRANK_ASSIGN(set, SafetensorsSet::open(run.options.init));
    POLYRANK_ASSIGN(identity, set.identity());
    identity.copy(facts.init, sizeof(facts.init) - 1);
  }
  if (run.data) {
    POLYRANK_ASSIGN(identity, identityOf(*run.data));
    identity.copy(facts.samples, sizeof(facts.samples) - 1);
  }
  // The samples of --holdout are in these.
  if (run.evaluation && !run.options.evalData.empty()) {
    POLYRANK_ASSIGN(identity, identityOf(*run.evaluation->data));
    identity.copy(facts.evaluated, sizeof(facts.evaluated) - 1);
  }
  return {};
}

RunEnd Run::end() const {
  return {*prepared,
          *progress,
          reports->uses(),
          checkpoints->skipped(),
          reports->tracedSteps(),
          rehearsedSeconds,
          attempts->numRestarts()};
}

Result<void> Run::checkpointed() const {
  std::optional<std::string> why = checkpoints->lastFailure();
  return why ? Error{fmt::format("the checkpoint of the last step could not be "
                                 "written: {}{}",
                                 *why, checkpoints->describeKept()),
                     Error::Fault::Disk}
             : Result<void>();
}

Error Run::describeFailure(const Error &error) const {
  uint64_t done = progress->stepsDone();
  if (done == 0)
    return error;
  std::string files =
      error.fault == Error::Fault::Preempted
          ? ""
          : prepared->files->describeKept(reports->isKept(), done);
  // After the last lines of a feed's command it is no part of them.
  bool hasLines = error.message.find('\n') != std::string::npos;
  return Error{fmt::format("{}{}(after {}{}{})", error.message,
                           hasLines ? "\n" : " ", plural(done, "step"), files,
                           checkpoints->describeKept()),
               error.fault};
}

} // namespace polyrank::runtime
