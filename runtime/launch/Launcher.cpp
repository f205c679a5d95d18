// Starts the ranks, and watches them with poll.

#include "runtime/launch/Launcher.h"

#include "runtime/launch/EndMessage.h"
#include "runtime/launch/RankProcess.h"
#include "runtime/launch/Stragglers.h"
#include "runtime/launch/Watch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto grace = std::chrono::milliseconds(400);
// After so long without progress, the user is told which ranks delay the job.
constexpr auto patience = std::chrono::seconds(10);

/// A rank, and what it has reported.
struct Rank {
  std::unique_ptr<RankProcess> process; // none: a guest that has not come yet
  std::string line;                     // read so far, incomplete
  bool finished = false;                // reported its end
  bool killed = false;                  // by us
  std::optional<Error> error;

  bool isRunning() const { return process && process->isRunning(); }
  bool isGood() const {
    return process && !process->isRunning() && finished &&
           process->hasSucceeded();
  }
};

/// Returns the variables of a rank. libgomp reads its wait policy when it is
/// loaded, hence before main: threads with a core of their own spin a while
/// (0.1 to 0.3 ms) before they sleep, otherwise they sleep at once.
std::vector<std::string> variablesOf(const LaunchOptions &options, int rank) {
  std::vector<std::string> result{
      fmt::format("POLYRANK_RANK={}", rank),
      fmt::format("POLYRANK_ATTEMPT={}", options.attempt),
      fmt::format("OMP_NUM_THREADS={}", options.threads), "OMP_DYNAMIC=false"};
  // For tests (support/Failpoint.h).
  if (const char *failpoints = std::getenv("POLYRANK_FAIL"))
    result.push_back(fmt::format("POLYRANK_FAIL={}", failpoints));
  bool alone = options.cores.alone;
  result.push_back(alone ? "GOMP_SPINCOUNT=5000" : "GOMP_SPINCOUNT=0");
  if (!alone)
    result.push_back("OMP_WAIT_POLICY=passive");
  return result;
}

/// Returns true if a process causes this signal itself; others come from
/// outside.
bool isOwnSignal(int signal) {
  switch (signal) {
  case SIGSEGV:
  case SIGBUS:
  case SIGFPE:
  case SIGILL:
  case SIGABRT:
  case SIGTRAP:
  case SIGSYS:
    return true;
  default:
    return false;
  }
}

class Launcher {
public:
  Launcher(const LaunchOptions &options, JobControl &job,
           const EndSignals &signals)
      : options(options), job(job), signals(signals), ranks(options.ranks),
        watch(job, options.ranks, {options.nameOf, options.placeOf}) {}

  ~Launcher() {
    killAll();
    for (Rank &rank : ranks)
      if (rank.process)
        rank.process->await();
  }

  LaunchEnd run() {
    for (int rank = 0; rank < options.ranks; ++rank)
      if (!isGuest(rank))
        if (Result<void> started = start(rank); !started)
          return {started, 0, true};
    while (anyToCome()) {
      wait();
      if (options.onTick)
        options.onTick();
      if (!ending)
        look();
      if (!ending)
        lookForStragglers();
      if (ending && Clock::now() > *ending + grace)
        killAll();
    }
    drainAll();
    return {verdict(), interrupted ? interrupted : stopping, isFromOutside()};
  }

private:
  RankStart startOf(int rank) const {
    RankStart start;
    start.arguments = options.arguments;
    start.environment = variablesOf(options, rank);
    start.jobFiles = job.descriptors();
    start.files = options.descriptors;
    // A Ctrl-C at the terminal is for the launcher, which ends the ranks. The
    // launcher also handles what a scheduler sends to all processes of a job.
    start.ignoredSignals = {SIGINT, SIGHUP, SIGUSR1};
    if (options.finishesStep)
      start.ignoredSignals.push_back(SIGTERM);
    if (!options.cores.ranks.empty())
      start.cores = options.cores.ranks[rank];
    return start;
  }

  Result<void> start(int rank) {
    POLYRANK_ASSIGN(process, startChild(startOf(rank), signals.before()));
    ranks[rank].process = std::move(process);
    return {};
  }

  bool isGuest(int rank) const {
    return options.door &&
           std::find(options.guests.begin(), options.guests.end(), rank) !=
               options.guests.end();
  }

  /// Lets in the guests that have come, or says why not.
  void receiveGuests() {
    for (GuestDoor::Request &request : options.door->look()) {
      int rank = request.rank;
      if (std::string why = refusalOf(rank); !why.empty()) {
        GuestDoor::refuse(request, why);
        continue;
      }
      // A guest that is gone before it was let in may come again.
      Result<std::unique_ptr<RankProcess>> admitted =
          GuestDoor::admit(std::move(request), startOf(rank));
      if (admitted)
        ranks[rank].process = *std::move(admitted);
      else
        warn(admitted.error().message);
    }
  }

  std::string refusalOf(int rank) const {
    if (rank < 0 || rank >= options.ranks)
      return fmt::format("the job has ranks 0 to {}", options.ranks - 1);
    if (ending)
      return "it comes too late, the job is ending";
    if (ranks[rank].process)
      return fmt::format("process {} is that rank already",
                         ranks[rank].process->pid());
    return "";
  }

  /// True as long as a rank runs, or a guest is to come.
  bool anyToCome() const {
    return std::any_of(ranks.begin(), ranks.end(), [&](const Rank &rank) {
      return rank.process ? rank.process->isRunning() : !ending;
    });
  }

  void wait() {
    std::vector<pollfd> files{{signals.descriptor(), POLLIN, 0}};
    for (Rank &rank : ranks)
      if (rank.process && rank.process->reports() >= 0)
        files.push_back({rank.process->reports(), POLLIN, 0});
    if (options.door)
      for (int file : options.door->descriptors())
        files.push_back({file, POLLIN, 0});
    poll(files.data(), files.size(), ending ? 20 : 100);
    if (options.door)
      receiveGuests();
    for (int rank = 0; rank < options.ranks; ++rank)
      drain(rank);
    while (int signal = signals.take())
      interrupt(signal);
    for (int rank = 0; rank < options.ranks; ++rank)
      reap(rank);
  }

  void interrupt(int signal) {
    if (options.finishesStep && !interrupted && !stopping && !ending) {
      // Without a step there is nothing to finish, and nothing new to save.
      if (uint64_t step = job.stopSteps()) {
        stopping = signal;
        warn(fmt::format("{}: the run ends when step {} is done and saved; "
                         "Ctrl-C ends it at once",
                         strsignal(signal), step));
        return;
      }
    }
    // A job that has failed is ending already. Schedulers repeat their signals;
    // only a SIGINT means that a user insists.
    if (interrupted || ending || (stopping && signal != SIGINT))
      return;
    interrupted = signal;
    end(fmt::format("interrupted by {}", strsignal(signal)));
  }

  void warn(const std::string &message) const {
    if (options.onWarning)
      options.onWarning(message);
  }

  std::vector<WatchedRank> watched() const {
    std::vector<WatchedRank> all;
    for (const Rank &rank : ranks)
      all.push_back(rank.process ? WatchedRank{rank.process->pid(),
                                               rank.process->isRunning()}
                                 : WatchedRank{-1, true});
    return all;
  }

  void lookForStragglers() {
    std::vector<uint64_t> awaited;
    for (int rank = 0; rank < options.ranks; ++rank)
      awaited.push_back(job.awaitedNanoseconds(rank));
    if (auto found = stragglers.look(Clock::now().time_since_epoch(), awaited))
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
    auto still = watch.look(watched());
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
                    watch.blame(watch.snapshot(watched())));
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
    std::vector<RankSnapshot> last = watch.snapshot(watched());
    isStopped = std::any_of(last.begin(), last.end(),
                            [](const auto &rank) { return rank.isStopped(); });
    end(message);
  }

  void reap(int number) {
    Rank &rank = ranks[number];
    if (!rank.process || !rank.process->reap())
      return;
    drain(number);
    if (rank.isGood() || first >= 0 || interrupted || stalled)
      return;
    first = number;
    showRanks(number);
    end(fmt::format("{} {}", options.nameOf(number),
                    rank.error ? "failed: " + rank.error->message
                               : rank.process->describeEnd()));
  }

  /// Shows where all ranks are, before they are ended because of rank `failed`
  /// (-1: none).
  void showRanks(int failed) const {
    if (!ending)
      warn(watch.table(watch.snapshot(watched()), failed));
  }

  /// Tells all ranks that the job is over; those that do not react are killed
  /// after the grace period.
  void end(const std::string &message) {
    if (ending)
      return;
    ending = Clock::now();
    job.abort(message);
  }

  void killAll() {
    for (Rank &rank : ranks)
      if (rank.isRunning()) {
        rank.killed = true;
        rank.process->kill();
      }
  }

  void drainAll() {
    for (int rank = 0; rank < options.ranks; ++rank)
      drain(rank);
  }

  void drain(int number) {
    Rank &rank = ranks[number];
    char buffer[65536];
    while (rank.process && rank.process->reports() >= 0) {
      ssize_t got = read(rank.process->reports(), buffer, sizeof(buffer));
      // A guest that ends before it has read all is a connection reset.
      if (got == 0 || (got < 0 && errno == ECONNRESET))
        rank.process->closeReports();
      if (got <= 0)
        return;
      for (ssize_t i = 0; i < got; ++i) {
        if (buffer[i] != '\n') {
          rank.line += buffer[i];
          continue;
        }
        receive(number, rank.line);
        rank.line.clear();
      }
    }
  }

  void receive(int rank, const std::string &line) {
    if (Result<void> taken = take(rank, line); !taken)
      fail(rank, taken.error());
  }

  /// Fails if the line is no message, or one that cannot be read.
  Result<void> take(int rank, const std::string &line) {
    POLYRANK_ASSIGN(message, TaggedMessage::parse(line));
    if (!isOneOf(message, endKinds)) {
      if (!options.onReport)
        return {};
      POLYRANK_ASSIGN(seconds, options.onReport(rank, message));
      if (seconds)
        watch.addStep(*seconds);
      return {};
    }
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
    if (first >= 0 || interrupted || stalled)
      return;
    first = rank;
    if (error.fault == Error::Fault::Rank)
      showRanks(rank);
    end(error.message);
  }

  Result<void> verdict() const {
    // A job that was done when the signal arrived has lost nothing.
    bool done = std::all_of(ranks.begin(), ranks.end(), [](const Rank &rank) {
      return rank.isGood() && !rank.error;
    });
    if (done && stoppedAfter)
      return Error{fmt::format("ended by signal {} ({}) after step {}",
                               stopping, strsignal(stopping), *stoppedAfter),
                   Error::Fault::Preempted};
    if (done)
      return {};
    if (interrupted)
      return Error{fmt::format("interrupted by signal {} ({}); all ranks "
                               "have ended",
                               interrupted, strsignal(interrupted)),
                   Error::Fault::Rank};
    if (stalled)
      return *stalled;
    // A rank's death explains more than the errors that other ranks report
    // about it.
    for (int rank = 0; rank < options.ranks; ++rank)
      if (diedOfSignal(ranks[rank]))
        return Error{fmt::format("{} {}", options.nameOf(rank),
                                 ranks[rank].process->describeEnd()),
                     Error::Fault::Rank};
    if (first < 0)
      return {};
    const Rank &rank = ranks[first];
    if (rank.error)
      return Error{
          fmt::format("{}: {}", options.nameOf(first), rank.error->message),
          rank.error->fault};
    return Error{fmt::format("{} {}", options.nameOf(first),
                             rank.process->describeEnd()),
                 Error::Fault::Rank};
  }

  static bool diedOfSignal(const Rank &rank) {
    return rank.process && rank.process->endSignal() && !rank.killed;
  }

  bool isFromOutside() const {
    if (stalled)
      return isStopped;
    auto own = [](const Rank &rank) {
      return diedOfSignal(rank) && isOwnSignal(rank.process->endSignal());
    };
    return std::any_of(ranks.begin(), ranks.end(), diedOfSignal) &&
           std::none_of(ranks.begin(), ranks.end(), own);
  }

  const LaunchOptions &options;
  JobControl &job;
  const EndSignals &signals;
  std::vector<Rank> ranks;
  Watch watch;
  Stragglers stragglers;
  bool warned = false; // about lack of progress
  int first = -1;      // the rank that failed before all others
  int stopping = 0;    // the signal for which the ranks finish their step
  int interrupted = 0; // the signal that ended them at once
  std::optional<uint64_t> stoppedAfter;
  std::optional<Error> stalled;
  bool isStopped = false; // a rank of the stalled job is stopped
  std::optional<Clock::time_point> ending;
};

} // namespace

LaunchEnd launchRanks(const LaunchOptions &options, JobControl &job,
                      const EndSignals &signals) {
  return Launcher(options, job, signals).run();
}

} // namespace polyrank::runtime
