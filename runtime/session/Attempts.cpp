// Starts ranks, and decides whether they are started again.

#include "runtime/session/Attempts.h"

#include "runtime/report/Messages.h"
#include "runtime/session/JobFiles.h"
#include "runtime/session/Resume.h"
#include "runtime/session/SharedStart.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace polyrank::runtime {

Result<void> Attempts::launchAll(LaunchOptions launch) {
  for (bool isFirst = true;; isFirst = false) {
    POLYRANK_ASSIGN(end, attempt(launch, isFirst));
    const Result<void> &ran = end.result;
    judged = end.status;
    if (Result<void> finished = checkpoints.finish(signals, !ran); !finished)
      return finished;
    if (ran || reports.failure())
      return ran;
    // Where machines share the ranks, machine 0 decides how it goes on.
    if (!run.isWriter()) {
      if (Result<void> next = awaitNext(launch, end); !next)
        return next;
      continue;
    }
    if (std::optional<Error> ended = endedBySignal(end))
      return *ended;
    // The launchers of other machines have ended their ranks.
    if (launch.others && !run.isShared())
      return ran;
    if (Result<void> next = prepareNext(launch, end); !next)
      return next;
  }
}

Result<LaunchEnd> Attempts::attempt(LaunchOptions &launch, bool isFirst) {
  Result<void> begun = begin(launch, isFirst);
  Result<LaunchEnd> end = begun ? launchOnce(launch) : begun.error();
  if (end || !run.isShared())
    return end;
  // What ends the ranks of one machine before they have begun ends those of
  // all.
  OtherMachines &others = *launch.others;
  others.fail({.machine = others.machine(),
               .error = end.error(),
               .signal = signals.latest()});
  LaunchEnd failed{end.error(), signals.latest()};
  addFailure(failed, others);
  return failed;
}

Result<void> Attempts::prepareNext(LaunchOptions &launch,
                                   const LaunchEnd &end) {
  std::string damage = reports.damage();
  if (damage.empty() || !resumesFromFolder(run.options.checkpoints)) {
    if (Result<void> ready = prepareRestart(end); !ready)
      return ready;
    return startAgain(launch);
  }
  if (int signal = signals.latest())
    return endBetweenAttempts(signal, damage + "; ");
  if (Result<void> older = checkpoints.takeOlder(damage); !older)
    return older;
  if (launch.door)
    return Error{fmt::format("{}; the ranks of this run have come as guests, "
                             "and do so once: start it and them again with "
                             "--resume {}",
                             damage, run.resumed->path),
                 Error::Fault::Rank};
  return startAgain(launch);
}

Result<void> Attempts::awaitNext(LaunchOptions &launch, const LaunchEnd &end) {
  const Error &error = end.result.error();
  if (error.fault == Error::Fault::Preempted)
    return error;
  if (Result<void> started = startAgain(launch); !started) {
    if (std::optional<Error> ended = endedBySignal(end))
      return *ended;
    return run.options.restarts > 0 ? started : error;
  }
  tell(fmt::format("polyrank-run: {}\npolyrank-run: all ranks start again\n",
                   error.message));
  reports.forget();
  return run.files->clear();
}

Result<void> Attempts::startAgain(LaunchOptions &launch) {
  if (!launch.others)
    return {};
  // It may have come while the ranks were being ended.
  if (int signal = signals.latest())
    return endBetweenAttempts(signal);
  Result<void> started =
      launch.others->startAgain([this] { return signals.take() != 0; });
  if (int signal = signals.latest(); signal && !started)
    return endBetweenAttempts(signal);
  return started;
}

Result<LaunchEnd> Attempts::launchOnce(LaunchOptions &launch) {
  // Each attempt has shared memory of its own, which is gone before the next
  // attempt's is created.
  SessionJobs::Options wanted;
  wanted.plan = &*run.plan;
  wanted.evaluation = run.evaluation ? &*run.evaluation : nullptr;
  wanted.threadsPerRank = launch.threads + run.options.commThreads;
  wanted.alone = launch.cores.alone && !run.times;
  wanted.here = run.here;
  wanted.others = run.isShared() ? launch.others : nullptr;
  wanted.checksWire = run.options.machines.checksWire;
  wanted.wire = run.options.machines.wire;
  wanted.isInterrupted = [this] { return signals.take() != 0; };
  POLYRANK_ASSIGN(jobs, SessionJobs::create(wanted));
  if (Result<void> started = startFeed(); !started)
    return started.error();
  launch.descriptors = descriptorsWith(*jobs);
  launch.attempt =
      run.isShared() ? launch.others->starts() : restarts.count() + 1;
  launch.onReport = [&](int rank, const TaggedMessage &message) {
    Result<std::optional<double>> seconds = reports.receive(rank, message);
    if (reports.failure() && launch.others)
      launch.others->fail({launch.others->machine(), rank, *reports.failure()});
    if (reports.failure())
      jobs->control().abort(reports.failure()->message);
    return seconds;
  };
  LaunchEnd end = launchRanks(launch, jobs->control(), signals);
  tick();
  feed.reset();
  return end;
}

Result<void> Attempts::startFeed() {
  std::vector<FeedSource> feeds = run.options.feeds();
  if (feeds.empty())
    return {};
  FeedOptions options{
      .feeds = std::move(feeds),
      .limit = std::chrono::milliseconds(
          static_cast<int64_t>(1e3 * run.options.dataTimeout)),
      .allowsNan = run.options.allowNan,
      .say = [quiet = run.options.quiet](const std::string &text) {
        if (!quiet)
          tell(text);
      }};
  const RunPage::Facts &facts = page.facts();
  POLYRANK_ASSIGN(started, Feed::start(options, feedLayoutOf(*run.plan->plan),
                                       int(run.report.ranks),
                                       facts.step - facts.origin));
  feed = std::move(started);
  return {};
}

void Attempts::tick() {
  if (!feed)
    return;
  for (const std::string &note : feed->takeNotes())
    progress.warn(note);
  if (std::string inexact = feed->findInexact(); !inexact.empty())
    checkpoints.setInexact(inexact);
}

Result<void> Attempts::begin(LaunchOptions &launch, bool isFirst) {
  if (run.isShared()) {
    // The first time it is settled before files are opened.
    Result<void> settled =
        isFirst ? Result<void>() : settleStart(run, *launch.others, [this] {
          return signals.take() != 0;
        });
    if (!settled)
      return settled;
    page.facts().run = numberOf(*launch.others);
  }
  if (Result<void> told = checkpoints.begin(); !told)
    return told;
  reports.begin(page.facts().evaluation);
  return {};
}

Result<void> Attempts::prepareRestart(const LaunchEnd &end) {
  const Error &error = end.result.error();
  Result<std::chrono::seconds> pause = restarts.after(error, howFar(end));
  if (!pause)
    return pause.error();
  if (int signal = signals.latest())
    return endBetweenAttempts(signal, error.message + "; ");
  tell(fmt::format("polyrank-run: {}\npolyrank-run: all ranks start again "
                   "in {} s ({} of {} restarts)\n",
                   error.message, pause->count(), restarts.count(),
                   run.options.restarts));
  if (int signal = signals.await(*pause))
    return endBetweenAttempts(signal);
  // Nothing of the failed attempt may get into the files of the next one.
  reports.forget();
  progress.startAgain(restarts.count());
  if (Result<void> cleared = run.files->clear(); !cleared)
    return cleared;
  return checkpoints.takeNewest();
}

Attempt Attempts::howFar(const LaunchEnd &end) const {
  uint64_t before = page.facts().step;
  uint64_t begun = std::max({page.lastBegun(), before + 1, end.begun});
  return {begun - 1 - before, begun - 1, hasBegunStep() || end.begun > before,
          end.fromOutside};
}

std::optional<Error> Attempts::endedBySignal(const LaunchEnd &end) const {
  if (!end.signal)
    return std::nullopt;
  const Error &error = end.result.error();
  if (!run.checkpoint || error.fault != Error::Fault::Rank)
    return error;
  // While ranks load a checkpoint, nothing is lost.
  if (!hasBegunStep() && run.resumed)
    return Error{error.message, Error::Fault::Preempted};
  // Whoever ends the run may also end its ranks: that is not their failure.
  if (end.fromOutside)
    return Error{fmt::format("{}; interrupted by signal {} ({})", error.message,
                             end.signal, strsignal(end.signal)),
                 Error::Fault::Preempted};
  return error;
}

Error Attempts::endBetweenAttempts(int signal, const std::string &why) const {
  return {fmt::format("{}interrupted by signal {} ({}) before the ranks were "
                      "started again",
                      why, signal, strsignal(signal)),
          run.checkpoint ? Error::Fault::Preempted : Error::Fault::Rank};
}

std::vector<int> Attempts::descriptorsWith(const SessionJobs &jobs) const {
  std::vector<int> all(numJobFiles);
  all[planFile] = run.planDescriptor.get();
  all[windowFile] = run.files->windowDescriptor();
  all[profileFile] = run.files->profile();
  all[traceFile] = run.files->trace();
  all[pageFile] = page.descriptor();
  all[evalPlanFile] = run.evalPlanDescriptor.get();
  all[evalWindowFile] = run.evalWindow ? run.evalWindow->descriptor() : -1;
  all[feedFile] = feed ? feed->descriptor() : -1;
  for (const std::vector<int> &more :
       {jobs.communicatorFiles(), run.files->weights()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

} // namespace polyrank::runtime
