// Processes of ranks: what they are started with, and the lines that they
// report.

#include "runtime/launch/LaunchedRanks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sched.h>
#include <system_error>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

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

} // namespace

LaunchedRanks::~LaunchedRanks() {
  killAll();
  for (LaunchedRank &rank : ranks)
    if (rank.process)
      rank.process->await();
}

RankStart LaunchedRanks::startOf(int rank) const {
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
    start.cores = options.cores.ranks[rank - options.firstRank];
  return start;
}

Result<void> LaunchedRanks::startChildren() {
  for (int rank = options.firstRank; rank < options.here().end(); ++rank) {
    if (isGuest(rank))
      continue;
    POLYRANK_ASSIGN(process, startChild(startOf(rank), signals.before()));
    (*this)[rank].process = std::move(process);
  }
  return {};
}

bool LaunchedRanks::isGuest(int rank) const {
  return options.door && std::find(options.guests.begin(), options.guests.end(),
                                   rank) != options.guests.end();
}

void LaunchedRanks::warn(const std::string &message) const {
  if (options.onWarning)
    options.onWarning(message);
}

void LaunchedRanks::receiveGuests(bool isEnding) {
  if (!options.door)
    return;
  for (GuestDoor::Request &request : options.door->look()) {
    std::optional<Error> refusal = refusalOf(request, isEnding);
    if (!refusal) {
      admit(std::move(request));
      continue;
    }
    GuestDoor::refuse(request, *refusal);
    warn(fmt::format("process {} asked to be rank {} and was refused: {}",
                     request.pid, request.rank, refusal->message));
  }
}

void LaunchedRanks::admit(GuestDoor::Request request) {
  int rank = request.rank, pid = request.pid;
  RankStart start = startOf(rank);
  std::error_code none;
  start.folder = std::filesystem::current_path(none).string();
  if (start.cores &&
      sched_setaffinity(pid, sizeof(*start.cores), &*start.cores) != 0)
    warn(fmt::format("process {}, which is {}, keeps the cores that it came "
                     "with: it may not use those that the run has for it ({})",
                     pid, options.nameOf(rank), std::strerror(errno)));
  // A guest that is gone before it was let in may come again.
  Result<std::unique_ptr<RankProcess>> admitted =
      GuestDoor::admit(std::move(request), start);
  if (admitted)
    (*this)[rank].process = *std::move(admitted);
  else
    warn(admitted.error().message);
}

std::optional<Error> LaunchedRanks::refusalOf(const GuestDoor::Request &request,
                                              bool isEnding) const {
  int rank = request.rank;
  if (!options.here().has(rank))
    return Error{fmt::format("the job has ranks {} to {}{}", options.firstRank,
                             options.here().end() - 1,
                             job.isShared() ? " on this machine" : "")};
  if (!request.planHash.empty() && request.planHash != options.planHash)
    return Error{fmt::format("its plan has SHA-256 {}, and that of the run {}",
                             request.planHash, options.planHash)};
  if (isEnding)
    return Error{"it comes too late, the job is ending", Error::Fault::Rank};
  if ((*this)[rank].process)
    return Error{fmt::format("process {} is that rank already",
                             (*this)[rank].process->pid()),
                 Error::Fault::Rank};
  return std::nullopt;
}

bool LaunchedRanks::anyToCome(bool isEnding) const {
  return std::any_of(ranks.begin(), ranks.end(), [&](const auto &rank) {
    return rank.process ? rank.process->isRunning() : !isEnding;
  });
}

std::vector<pollfd> LaunchedRanks::polled() const {
  std::vector<pollfd> files;
  for (const LaunchedRank &rank : ranks)
    if (rank.process && rank.process->reports() >= 0)
      files.push_back({rank.process->reports(), POLLIN, 0});
  if (options.door)
    for (int file : options.door->descriptors())
      files.push_back({file, POLLIN, 0});
  return files;
}

void LaunchedRanks::drain(
    int number, const std::function<void(const std::string &line)> &take) {
  LaunchedRank &rank = (*this)[number];
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
      take(rank.line);
      rank.line.clear();
    }
  }
}

void LaunchedRanks::killAll() {
  for (LaunchedRank &rank : ranks)
    if (rank.isRunning()) {
      rank.killed = true;
      rank.process->kill();
    }
}

bool LaunchedRanks::wereKilled() const {
  auto died = [](const LaunchedRank &rank) { return rank.diedOfSignal(); };
  auto own = [](const LaunchedRank &rank) {
    return rank.diedOfSignal() && isOwnSignal(rank.process->endSignal());
  };
  return std::any_of(ranks.begin(), ranks.end(), died) &&
         std::none_of(ranks.begin(), ranks.end(), own);
}

std::vector<WatchedRank> LaunchedRanks::watched() const {
  std::vector<WatchedRank> all;
  for (const LaunchedRank &rank : ranks)
    all.push_back(rank.process ? WatchedRank{rank.process->pid(),
                                             rank.process->isRunning()}
                               : WatchedRank{-1, true});
  return all;
}

} // namespace polyrank::runtime
