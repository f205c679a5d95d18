// Watches the ranks with poll, and ends them together.

#include "runtime/launch/Launcher.h"

#include "runtime/launch/Elsewhere.h"
#include "runtime/launch/EndMessage.h"
#include "runtime/launch/LaunchedRanks.h"
#include "runtime/launch/Stragglers.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <ranges>
#include <utility>

namespace polyrank::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto grace = std::chrono::milliseconds(400);
// After so long without progress, the user is told which ranks delay the job.
constexpr auto patience = std::chrono::seconds(10);

class Launcher {
public:
  Launcher(const LaunchOptions &options, JobControl &job,
           const EndSignals &signals)
      : options(options), job(job), signals(signals), elsewhere(options, job),
        ranks(options, job, signals),
        watch(job, job.worldSize(), {options.nameOf, options.placeOf}) {}

  LaunchEnd run() {
    if (Result<void> started = ranks.startChildren(); !started)
      return elsewhere.conclude(
          {started, 0, true}, [] { return true; }, options.judge);
    while (ranks.anyToCome(isEnding())) {
      wait();
      if (options.onTick)
        options.onTick();
      lookElsewhere();
      if (!ending && elsewhere.isToJudge())
        look();
      if (!ending && elsewhere.isToJudge())
        lookForStragglers();
      if (ending && Clock::now() > *ending + grace) {
        ranks.killAll();
        tellElsewhere();
      }
    }
    for (int rank : ranksHere())
      drain(rank);
    awaitCause();
    tellElsewhere();
    LaunchEnd ended = elsewhere.conclude(
        {verdict(), interrupted ? interrupted : stopping, isFromOutside()},
        [this] { return isInterruptedAtTheEnd(); },
        [this] {
          receiveReports();
          return options.judge();
        });
    if (interrupted)
      ended.signal = interrupted;
    receiveReports();
    return ended;
  }

private:
  bool isEnding() const { return ending.has_value(); }

  /// The numbers of the ranks of this machine.
  std::ranges::iota_view<int, int> ranksHere() const {
    return std::views::iota(options.firstRank, options.here().end());
  }
  /// All ranks of the job.
  std::vector<WatchedRank> allRanks() const {
    return elsewhere.withOthers(ranks.watched());
  }

  /// Follows the other machines of the job.
  void lookElsewhere() {
    elsewhere.tick(ranks.watched());
    receiveReports();
    if (failedElsewhere() || stopping || interrupted)
      return;
    std::optional<OtherMachines::Stop> stop = elsewhere.stop();
    if (!stop)
      return;
    if (stop->step > 0)
      finishAfter(stop->step, stop->signal);
    else
      interruptAtOnce(stop->signal);
  }

  /// True once another machine has failed before anything failed here; then the
  /// ranks are being ended.
  bool failedElsewhere() {
    if (!foreign && first < 0 && !interrupted && !stalled)
      foreign = elsewhere.failure();
    // Machine 0 shows all ranks. Of others that fail by their input or at a
    // signal it is no matter where they are.
    if (foreign && !ending && job.isShared() && elsewhere.isToJudge() &&
        foreign->fault == Error::Fault::Rank)
      showRanks(elsewhere.failedRank());
    if (foreign)
      end(foreign->message);
    return foreign.has_value();
  }

  /// While the ranks of other machines are waited for.
  bool isInterruptedAtTheEnd() {
    if (options.onTick)
      options.onTick();
    elsewhere.tick(ranks.watched());
    receiveReports();
    if (int signal = signals.take()) {
      interrupted = signal;
      elsewhere.fail(-1, interruption(), false, signal);
    }
    return interrupted != 0;
  }

  void wait() {
    std::vector<pollfd> files{{signals.descriptor(), POLLIN, 0}};
    for (pollfd file : ranks.polled())
      files.push_back(file);
    poll(files.data(), files.size(), ending ? 20 : 100);
    ranks.receiveGuests(isEnding());
    for (int rank : ranksHere())
      drain(rank);
    while (int signal = signals.take())
      interrupt(signal);
    for (int rank : ranksHere())
      reap(rank);
  }

  void interrupt(int signal) {
    if (options.finishesStep && !interrupted && !stopping && !ending) {
      if (elsewhere.isAnywhere() && !std::exchange(hasAsked, true))
        return elsewhere.requestStop(signal);
      // Without a step there is nothing to finish, and nothing new to save.
      uint64_t step = elsewhere.isAnywhere() ? 0 : job.stopSteps();
      if (step > 0)
        return finishAfter(step, signal);
    }
    // A job that has failed is ending already. Schedulers repeat their signals;
    // only a SIGINT means that a user insists.
    if (interrupted || ending || ((stopping || hasAsked) && signal != SIGINT))
      return;
    interruptAtOnce(signal);
  }

  void finishAfter(uint64_t step, int signal) {
    stopping = signal;
    warn(fmt::format("{}: the run ends when step {} is done and saved; Ctrl-C "
                     "ends it at once",
                     strsignal(signal), step));
  }

  void interruptAtOnce(int signal) {
    interrupted = signal;
    elsewhere.fail(-1, interruption(), false, signal);
    end(fmt::format("interrupted by {}", strsignal(signal)));
  }

  Error interruption() const {
    return {fmt::format("interrupted by signal {} ({}); all ranks have ended",
                        interrupted, strsignal(interrupted)),
            Error::Fault::Rank};
  }

  void warn(const std::string &message) const {
    if (options.onWarning)
      options.onWarning(message);
  }

  void lookForStragglers() {
    if (auto found = stragglers.look(Clock::now().time_since_epoch(),
                                     elsewhere.awaited()))
      warn(fmt::format(
          "{} holds the others up: in the last {} s they waited "
          "{:.0f} % of their time for it to start what they had "
          "started, and {:.0f} % of all their waiting was for it; "
          "look at its core, and at what else runs there",
          options.nameOf(found->rank),
          std::chrono::duration_cast<std::chrono::seconds>(Stragglers::window)
              .count(),
          100 * found->timeLost, 100 * found->share));
  }

  /// Ends a job that makes no progress, after telling the user why.
  void look() {
    auto still = watch.look(allRanks());
    if (still < patience)
      warned = false;
    Clock::duration limit = options.timeout ? *options.timeout : watch.limit();
    bool over = limit.count() > 0 && still >= limit;
    if (!over && (warned || still < patience))
      return;
    using std::chrono::seconds;
    std::string message =
        fmt::format("no rank made progress for {} s: {}",
                    std::chrono::duration_cast<seconds>(still).count(),
                    watch.blame(watch.snapshot(allRanks())));
    if (!over) {
      warned = true;
      warn(limit.count() > 0
               ? fmt::format("{}; the run ends when that lasts {} s", message,
                             std::chrono::duration_cast<seconds>(limit).count())
               : message);
      return;
    }
    message += "; --timeout gives it more time";
    showRanks(-1);
    stalled = Error{message, Error::Fault::Hang};
    std::vector<RankSnapshot> last = watch.snapshot(allRanks());
    isStopped = std::any_of(last.begin(), last.end(),
                            [](const auto &rank) { return rank.isStopped(); });
    elsewhere.fail(-1, *stalled, isStopped);
    end(message);
  }

  void reap(int number) {
    LaunchedRank &rank = ranks[number];
    if (!rank.process || !rank.process->reap())
      return;
    drain(number);
    if (rank.hasDied())
      tellElsewhere();
    if (rank.isGood() || first >= 0 || interrupted || stalled ||
        failedElsewhere())
      return;
    first = number;
    elsewhere.tick(ranks.watched()); // machine 0 is to know that it is dead
    showRanks(number);
    std::string message =
        fmt::format("{} {}", options.nameOf(number),
                    rank.error ? "failed: " + rank.error->message
                               : rank.process->describeEnd());
    elsewhere.fail(number,
                   rank.error ? rank.error->saying(message)
                              : Error{message, Error::Fault::Rank},
                   isFromOutside());
    end(message);
  }

  /// Tells the other machines why the ranks are being ended. A rank that dies
  /// is reaped a moment after others have reported that they miss it, and says
  /// more: so the others hear of it then, or after the grace period.
  void tellElsewhere() {
    if (!std::exchange(isToTell, false))
      return;
    if (Result<void> known = verdict(); !known)
      elsewhere.fail(first, known.error(), isFromOutside());
  }

  /// Ranks here may miss one of another machine before that machine, or who
  /// misses it, has told why: then that is the cause.
  void awaitCause() {
    while (isToTell && job.isShared() && Clock::now() < *ending + grace) {
      if (std::optional<Error> cause = elsewhere.failure()) {
        foreign = cause;
        isToTell = false;
      }
      wait();
    }
  }

  /// Shows where all ranks are, before they are ended because of rank `failed`
  /// (-1: none).
  void showRanks(int failed) {
    // Where machines share the ranks out, machine 0 shows all.
    if (ending || !elsewhere.isToJudge())
      return;
    std::string table = watch.table(watch.snapshot(allRanks()), failed);
    warn(table);
    elsewhere.tell(table);
  }

  /// Tells all ranks that the job is over; those that do not react are killed
  /// after the grace period.
  void end(const std::string &message) {
    if (ending)
      return;
    ending = Clock::now();
    job.abort(message);
  }

  void drain(int rank) {
    ranks.drain(rank, [&](const std::string &line) { receive(rank, line); });
  }

  void receive(int rank, const std::string &line) {
    if (Result<void> taken = take(rank, line); !taken)
      fail(rank, taken.error());
  }

  /// Takes what the ranks of other machines have reported here.
  void receiveReports() {
    for (const auto &[rank, line] : elsewhere.takeReports()) {
      Result<void> taken = Error{fmt::format("there is no rank {}", rank)};
      if (rank >= 0 && rank < job.worldSize() && !options.here().has(rank)) {
        Result<TaggedMessage> message = TaggedMessage::parse(line);
        taken = message ? report(rank, *message) : message.error();
      }
      if (!taken && first < 0 && !interrupted && !stalled && !foreign) {
        stalled = taken.error();
        elsewhere.fail(-1, *stalled, false);
        end(stalled->message);
      }
    }
  }

  Result<void> report(int rank, const TaggedMessage &message) {
    if (!options.onReport)
      return {};
    POLYRANK_ASSIGN(seconds, options.onReport(rank, message));
    if (seconds)
      watch.addStep(*seconds);
    return {};
  }

  /// Fails if the line is no message, or one that cannot be read.
  Result<void> take(int rank, const std::string &line) {
    POLYRANK_ASSIGN(message, TaggedMessage::parse(line));
    if (!isOneOf(message, endKinds))
      return elsewhere.takesReport(rank, line) ? Result<void>()
                                               : report(rank, message);
    POLYRANK_ASSIGN(ended, fromTagged<EndMessage>(message, endKinds));
    if (const auto *failed = std::get_if<RankFailed>(&ended))
      fail(rank, failed->error);
    else if (const auto *stopped = std::get_if<RankStopped>(&ended))
      stoppedAfter = stopped->step;
    else
      ranks[rank].finished = true;
    return {};
  }

  /// The first rank that fails ends all.
  void fail(int rank, const Error &error) {
    ranks[rank].error = error;
    if (first >= 0 || interrupted || stalled || failedElsewhere())
      return;
    first = rank;
    if (error.fault == Error::Fault::Rank)
      showRanks(rank);
    isToTell = true;
    end(error.message);
  }

  Result<void> verdict() const {
    if (foreign)
      return *foreign;
    // A job that was done when the signal arrived has lost nothing.
    bool done =
        std::all_of(ranks.begin(), ranks.end(), [](const LaunchedRank &rank) {
          return rank.isGood() && !rank.error;
        });
    if (done && stoppedAfter)
      return Error{fmt::format("ended by signal {} ({}) after step {}",
                               stopping, strsignal(stopping), *stoppedAfter),
                   Error::Fault::Preempted};
    if (done)
      return {};
    if (interrupted)
      return interruption();
    if (stalled)
      return *stalled;
    // A rank's death explains more than the errors that other ranks report
    // about it.
    for (int rank : ranksHere())
      if (ranks[rank].hasDied())
        return Error{fmt::format("{} {}", options.nameOf(rank),
                                 ranks[rank].process->describeEnd()),
                     Error::Fault::Rank};
    if (first < 0)
      return {};
    const LaunchedRank &rank = ranks[first];
    if (rank.error)
      return Error{
          fmt::format("{}: {}", options.nameOf(first), rank.error->message),
          rank.error->fault};
    return Error{fmt::format("{} {}", options.nameOf(first),
                             rank.process->describeEnd()),
                 Error::Fault::Rank};
  }

  bool isFromOutside() const {
    return stalled ? isStopped : ranks.wereKilled();
  }

  const LaunchOptions &options;
  JobControl &job;
  const EndSignals &signals;
  Elsewhere elsewhere;
  LaunchedRanks ranks;
  Watch watch;
  Stragglers stragglers;
  bool warned = false; // about lack of progress
  int first = -1;      // the rank that failed before all others
  int stopping = 0;    // the signal for which the ranks finish their step
  int interrupted = 0; // the signal that ended them at once
  std::optional<uint64_t> stoppedAfter;
  std::optional<Error> stalled;
  std::optional<Error> foreign; // what has failed on another machine first
  bool hasAsked = false;        // the other machines to stop after a step
  bool isToTell = false;        // a failure that the others do not know yet
  bool isStopped = false;       // a rank of the stalled job is stopped
  std::optional<Clock::time_point> ending;
};

} // namespace

LaunchEnd launchRanks(const LaunchOptions &options, JobControl &job,
                      const EndSignals &signals) {
  return Launcher(options, job, signals).run();
}

} // namespace polyrank::runtime
