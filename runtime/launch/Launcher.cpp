// Starts and watches the ranks with fork, exec and poll.

#include "runtime/launch/Launcher.h"

#include "runtime/launch/Stragglers.h"
#include "runtime/launch/Watch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace polyrank::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto grace = std::chrono::milliseconds(400);
// After so long without progress, the user is told which ranks delay the job.
constexpr auto patience = std::chrono::seconds(10);

struct RankProcess {
  pid_t pid = -1;
  Descriptor pipe;
  std::string line;      // read so far, incomplete
  bool running = false;  // not yet reaped
  bool finished = false; // reported its end
  bool killed = false;   // by us
  std::optional<Error> error;
  int status = 0;
};

/// Returns the environment of a rank: our variables, OpenMP's, and the user's.
/// libgomp reads its wait policy when it is loaded, hence before main: threads
/// with a core of their own spin a while (0.1 to 0.3 ms) before they sleep,
/// otherwise they sleep at once.
std::vector<std::string> environmentOf(const LaunchOptions &options, int rank,
                                       int pipe,
                                       const std::vector<int> &jobFiles) {
  std::vector<std::string> result;
  bool alone = options.cores.alone;
  for (char **variable = environ; *variable; ++variable) {
    std::string_view text = *variable;
    if (!text.starts_with("POLYRANK_") && !text.starts_with("OMP_") &&
        !text.starts_with("GOMP_"))
      result.emplace_back(text);
  }
  result.push_back(fmt::format("POLYRANK_RANK={}", rank));
  result.push_back(fmt::format("POLYRANK_JOB={}", fmt::join(jobFiles, ",")));
  result.push_back(fmt::format("POLYRANK_ATTEMPT={}", options.attempt));
  // For tests (support/Failpoint.h).
  if (const char *failpoints = std::getenv("POLYRANK_FAIL"))
    result.push_back(fmt::format("POLYRANK_FAIL={}", failpoints));
  result.push_back(
      fmt::format("POLYRANK_FILES={}", fmt::join(options.descriptors, ",")));
  result.push_back(fmt::format("POLYRANK_REPORTS={}", pipe));
  result.push_back(fmt::format("OMP_NUM_THREADS={}", options.threads));
  result.push_back("OMP_DYNAMIC=false");
  result.push_back(alone ? "GOMP_SPINCOUNT=5000" : "GOMP_SPINCOUNT=0");
  if (!alone)
    result.push_back("OMP_WAIT_POLICY=passive");
  return result;
}

std::vector<char *> pointersTo(std::vector<std::string> &strings) {
  std::vector<char *> pointers;
  for (std::string &text : strings)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string describeEnd(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {} before it was done",
                     WEXITSTATUS(status));
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
    for (RankProcess &rank : ranks)
      if (rank.running)
        waitpid(rank.pid, nullptr, 0);
  }

  LaunchEnd run() {
    for (int rank = 0; rank < options.ranks; ++rank)
      if (Result<void> started = start(rank); !started)
        return {started, 0, true};
    while (anyRunning()) {
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
  static Error systemError(const char *what) {
    return Error{fmt::format("cannot start the ranks: {}: {}", what,
                             std::strerror(errno)),
                 Error::Fault::Rank};
  }

  Result<void> start(int rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return systemError("pipe");
    RankProcess &process = ranks[rank];
    process.pipe = Descriptor(ends[0]);
    Descriptor reports(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    // Everything that allocates comes before the fork.
    std::vector<int> jobFiles = job.descriptors();
    std::vector<std::string> arguments = options.arguments;
    std::vector<std::string> environment =
        environmentOf(options, rank, reports.get(), jobFiles);
    std::vector<char *> argv = pointersTo(arguments),
                        envp = pointersTo(environment);
    const cpu_set_t *mine =
        options.cores.ranks.empty() ? nullptr : &options.cores.ranks[rank];

    pid_t launcher = getpid();
    process.pid = fork();
    if (process.pid < 0)
      return systemError("fork");
    if (process.pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != launcher)
        _exit(2);
      // A Ctrl-C at the terminal is for the launcher, which ends the ranks.
      signal(SIGINT, SIG_IGN);
      signal(SIGHUP, SIG_IGN);
      // The launcher also handles what a scheduler sends to all processes of a
      // job.
      signal(SIGUSR1, SIG_IGN);
      if (options.finishesStep)
        signal(SIGTERM, SIG_IGN);
      sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
      if (mine)
        sched_setaffinity(0, sizeof(*mine), mine);
      fcntl(reports.get(), F_SETFD, 0);
      for (int descriptor : options.descriptors)
        fcntl(descriptor, F_SETFD, 0);
      for (int descriptor : jobFiles)
        fcntl(descriptor, F_SETFD, 0);
      execve("/proc/self/exe", argv.data(), envp.data());
      _exit(127);
    }
    process.running = true;
    return {};
  }

  bool anyRunning() const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [](const RankProcess &rank) { return rank.running; });
  }

  void wait() {
    std::vector<pollfd> files{{signals.descriptor(), POLLIN, 0}};
    for (RankProcess &rank : ranks)
      if (rank.pipe.get() >= 0)
        files.push_back({rank.pipe.get(), POLLIN, 0});
    poll(files.data(), files.size(), ending ? 20 : 100);
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
    for (const RankProcess &rank : ranks)
      all.push_back({rank.pid, rank.running});
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

  void reap(int rank) {
    RankProcess &process = ranks[rank];
    if (!process.running ||
        waitpid(process.pid, &process.status, WNOHANG) != process.pid)
      return;
    process.running = false;
    drain(rank);
    bool good = WIFEXITED(process.status) && WEXITSTATUS(process.status) == 0 &&
                process.finished;
    if (good || first >= 0 || interrupted || stalled)
      return;
    first = rank;
    showRanks(rank);
    end(fmt::format("{} {}", options.nameOf(rank),
                    process.error ? "failed: " + process.error->message
                                  : describeEnd(process.status)));
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
    for (RankProcess &rank : ranks)
      if (rank.running) {
        rank.killed = true;
        kill(rank.pid, SIGKILL);
      }
  }

  void drainAll() {
    for (int rank = 0; rank < options.ranks; ++rank)
      drain(rank);
  }

  void drain(int rank) {
    RankProcess &process = ranks[rank];
    char buffer[65536];
    while (process.pipe.get() >= 0) {
      ssize_t got = read(process.pipe.get(), buffer, sizeof(buffer));
      if (got == 0)
        process.pipe = Descriptor();
      if (got <= 0)
        return;
      for (ssize_t i = 0; i < got; ++i) {
        if (buffer[i] != '\n') {
          process.line += buffer[i];
          continue;
        }
        receive(rank, process.line);
        process.line.clear();
      }
    }
  }

  void receive(int rank, const std::string &line) {
    nlohmann::json report = nlohmann::json::parse(line, nullptr, false);
    if (!report.is_object())
      return;
    RankProcess &process = ranks[rank];
    if (report.contains("error")) {
      process.error =
          Error{report.value("error", std::string()),
                Error::Fault(report.value("fault", int(Error::Fault::Rank)))};
      if (first < 0 && !interrupted && !stalled) {
        first = rank;
        if (process.error->fault == Error::Fault::Rank)
          showRanks(rank);
        end(process.error->message);
      }
    } else if (report.contains("finished")) {
      process.finished = true;
    } else if (report.contains("stopped")) {
      stoppedAfter = report["stopped"];
    } else {
      if (report.contains("step"))
        watch.addStep(report["step"].value("seconds", 0.0));
      if (options.onReport)
        options.onReport(rank, report);
    }
  }

  Result<void> verdict() const {
    // A job that was done when the signal arrived has lost nothing.
    bool done =
        std::all_of(ranks.begin(), ranks.end(), [](const RankProcess &rank) {
          return rank.finished && !rank.error && WIFEXITED(rank.status) &&
                 WEXITSTATUS(rank.status) == 0;
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
                                 describeEnd(ranks[rank].status)),
                     Error::Fault::Rank};
    if (first < 0)
      return {};
    const RankProcess &process = ranks[first];
    if (process.error)
      return Error{
          fmt::format("{}: {}", options.nameOf(first), process.error->message),
          process.error->fault};
    return Error{fmt::format("{} {}", options.nameOf(first),
                             describeEnd(process.status)),
                 Error::Fault::Rank};
  }

  bool diedOfSignal(const RankProcess &rank) const {
    return WIFSIGNALED(rank.status) && !rank.killed;
  }

  bool isFromOutside() const {
    if (stalled)
      return isStopped;
    auto dead = [this](const RankProcess &rank) { return diedOfSignal(rank); };
    auto own = [&](const RankProcess &rank) {
      return dead(rank) && isOwnSignal(WTERMSIG(rank.status));
    };
    return std::any_of(ranks.begin(), ranks.end(), dead) &&
           std::none_of(ranks.begin(), ranks.end(), own);
  }

  const LaunchOptions &options;
  JobControl &job;
  const EndSignals &signals;
  std::vector<RankProcess> ranks;
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
