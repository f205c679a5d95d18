// The launcher's and the rank's side of a job on one machine.

#include "runtime/job/local/LocalJob.h"

#include "runtime/job/local/JobPage.h"
#include "support/Cores.h"
#include "support/Failpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::local {
namespace {

constexpr uint64_t spinNanosecondsWhenAlone = 50'000;
/// More ranks than any machine has cores for, and few enough for sizes that
/// grow with the square of the number of ranks.
constexpr int maxRanksOfOneMachine = 4096;

class LocalControl : public JobControl {
public:
  /// `bell` is rung when the ranks here have come to a barrier; none if they
  /// are all.
  LocalControl(Descriptor file, Descriptor bell, JobPage page)
      : file(std::move(file)), bell(std::move(bell)), page(std::move(page)) {}

  int worldSize() const override { return page.worldSize(); }
  RankRange here() const override { return page.here(); }
  void abort(std::string_view message) override {
    page.abort(message);
    wakeSleepers();
  }
  Result<void> health() const override { return page.health(); }
  RankReport report(int rank) const override { return page.report(rank); }
  RankWait waitOf(int rank) const override { return page.waitOf(rank); }
  uint64_t stopSteps() override { return page.header().frontier.close(); }
  uint64_t holdSteps() override { return page.header().frontier.hold(); }
  void releaseSteps() override { page.header().frontier.release(); }
  void stopAfter(uint64_t step) override {
    page.header().frontier.stopAfter(step);
  }
  uint64_t awaitedNanoseconds(int rank) const override {
    return page.rank(rank).awaitedNanoseconds.load();
  }
  std::vector<int> descriptors() const override {
    return bell.get() < 0 ? std::vector{file.get()}
                          : std::vector{file.get(), bell.get()};
  }

  int barrierFile() const override { return bell.get(); }
  std::optional<Barrier> takeBarrier() override;
  void endBarrier(uint32_t number, int lastToCome) override {
    page.endBarrier(number, lastToCome);
  }
  uint32_t barriersOf(int rank) const override {
    return page.rank(rank).barriers.load();
  }
  void setRemote(int rank, const RankReport &report, const RankWait &wait,
                 uint32_t barriers) override {
    if (rank >= 0 && rank < worldSize() && !here().has(rank))
      page.setRemote(rank, report, wait, barriers);
  }
  void setClockOffset(int64_t offset) override {
    page.header().clockOffset.store(offset, std::memory_order_relaxed);
  }

private:
  Descriptor file, bell;
  JobPage page;
  uint32_t taken = 0; // barriers
};

std::optional<JobControl::Barrier> LocalControl::takeBarrier() {
  if (bell.get() < 0)
    return std::nullopt;
  uint64_t rings;
  [[maybe_unused]] ssize_t got = read(bell.get(), &rings, sizeof(rings));
  JobHeader &job = page.header();
  uint32_t number = job.barrierHere.load();
  if (number == taken)
    return std::nullopt;
  taken = number;
  return Barrier{number, job.lastHere.load(), job.filledBegin.load(),
                 job.filledEnd.load()};
}

class LocalMember : public JobMember {
public:
  /// `bell` is JobControl::barrierFile.
  LocalMember(JobPage mapped, Descriptor bell, int rank)
      : page(std::move(mapped)), bell(std::move(bell)), self(rank),
        mine(page.rank(rank)) {}
  ~LocalMember() override {
    mine.phase.store(RankPhase::Left, std::memory_order_release);
  }

  int worldSize() const override { return page.worldSize(); }
  void abort(std::string_view message) override {
    end("rank " + std::to_string(self) + ": " + std::string(message));
  }
  Error fail(const std::string &message) override {
    end(message);
    return page.health().error();
  }
  Result<void> health() const override { return page.health(); }
  RankReport report(int rank) const override { return page.report(rank); }
  RankWait waitOf(int rank) const override { return page.waitOf(rank); }

  int rank() const override { return self; }
  RankRange here() const override { return page.here(); }
  bool mayBegin(uint64_t step) override;
  bool isClosedBefore(uint64_t step) const override {
    return page.header().frontier.isClosedBefore(step);
  }
  void setProgress(uint64_t step, uint32_t command) override {
    if (mine.isBeside.load(std::memory_order_relaxed))
      return beat();
    mine.step.store(step, std::memory_order_relaxed);
    mine.command.store(command, std::memory_order_relaxed);
  }
  std::atomic<uint64_t> &deviceWord() override {
    return mine.isBeside.load(std::memory_order_relaxed) ? mine.deviceBeside
                                                         : mine.device;
  }
  void setBeside(bool isBeside) override { mine.isBeside.store(isBeside); }
  void beat() override { mine.beats.fetch_add(1, std::memory_order_relaxed); }
  Result<void> barrier() override { return meet(0, 0); }
  Result<void> gather(uint64_t begin, uint64_t end) override {
    return meet(begin, end);
  }
  int64_t clockOffset() const override {
    return page.header().clockOffset.load(std::memory_order_relaxed);
  }

  bool hasOwnCores() const override {
    return page.header().spinNanoseconds > 0;
  }
  void setOperation(uint64_t id) override {
    mine.operation.store(id, std::memory_order_relaxed);
  }
  void beginWait(uint64_t token, RankWait::What what,
                 std::span<const int> ranks) override {
    page.setBlockers(self, ranks);
    mine.what.store(what);
    mine.waiting.store(token);
  }
  void endWait(int rank, uint64_t token) override {
    page.rank(rank).waiting.compare_exchange_strong(token, 0);
  }
  void addAwaited(int rank, uint64_t nanoseconds) override {
    page.rank(rank).awaitedNanoseconds.fetch_add(nanoseconds,
                                                 std::memory_order_relaxed);
  }
  Presence presenceOf(int rank) const override;
  Result<void> checkLauncher() override;

private:
  void end(const std::string &message) {
    page.abort(message);
    wakeSleepers();
  }
  /// The barrier after the ranks have filled these bytes of a window.
  Result<void> meet(uint64_t begin, uint64_t end);
  /// All ranks of this machine have come to the barrier.
  void ring(uint32_t number);
  Result<void> checkMissing();

  JobPage page;
  Descriptor bell;
  int self;
  RankState &mine;
};

bool LocalMember::mayBegin(uint64_t step) {
  for (;;) {
    Frontier::Answer answer = page.header().frontier.ask(step);
    if (answer != Frontier::Answer::Wait)
      return answer == Frontier::Answer::Yes;
    // Machines agree within milliseconds, and seldom: there is nobody who would
    // wake this rank.
    if (!health() || !checkLauncher())
      return true;
    usleep(200);
  }
}

void LocalMember::ring(uint32_t number) {
  JobHeader &job = page.header();
  job.lastHere.store(self);
  job.barrierHere.store(number);
  uint64_t one = 1;
  [[maybe_unused]] ssize_t rung = write(bell.get(), &one, sizeof(one));
}

/// The last rank to come ends the barrier and wakes the others. With several
/// machines the last one of each tells its launcher, and that wakes all once
/// the ranks of the other machines have come.
Result<void> LocalMember::meet(uint64_t filledBegin, uint64_t filledEnd) {
  failpoint("barrier.before");
  if (Result<void> alive = health(); !alive)
    return alive;
  JobHeader &job = page.header();
  int64_t begin = monotonicNanoseconds();
  uint32_t number = mine.barriers.load() + 1;
  mine.operation.store(0, std::memory_order_relaxed);
  mine.barriers.store(number);
  // All ranks store the same.
  job.filledBegin.store(filledBegin, std::memory_order_relaxed);
  job.filledEnd.store(filledEnd, std::memory_order_relaxed);
  if ((job.arrivals.fetch_add(1) + 1) % job.ranksHere == 0) {
    if (!page.isShared()) {
      page.endBarrier(number, self);
      return {};
    }
    ring(number);
  }
  auto isOver = [&] { return int32_t(job.barriersOver.load() - number) >= 0; };
  Result<void> result;
  if (!spinUntil(begin, static_cast<int64_t>(job.spinNanoseconds), isOver)) {
    job.sleepers.fetch_add(1);
    while (result && !isOver()) {
      int64_t before = monotonicNanoseconds();
      result = health();
      if (!result)
        break;
      sleepWhile(job.barriersOver, number - 1);
      // The others are checked only after a sleep that nobody ended.
      if (!isOver() && monotonicNanoseconds() - before >= 90'000'000)
        result = checkMissing();
    }
    job.sleepers.fetch_sub(1);
  }
  if (result && job.lastToCome.load() != self)
    addAwaited(job.lastToCome.load(),
               static_cast<uint64_t>(monotonicNanoseconds() - begin));
  return result;
}

/// Fails if a rank cannot come to this rank's barrier any more.
Result<void> LocalMember::checkMissing() {
  if (Result<void> alive = checkLauncher(); !alive)
    return alive;
  for (int other : page.missingInBarrierOf(self)) {
    Presence presence = presenceOf(other);
    if (presence != Presence::Left && presence != Presence::Dead)
      continue;
    // It may have come between the two checks, and left normally.
    std::vector<int> missing = page.missingInBarrierOf(self);
    if (std::find(missing.begin(), missing.end(), other) == missing.end())
      continue;
    return fail(describeAbsence(other) + "; rank " + std::to_string(self) +
                " waits at a barrier (step " +
                std::to_string(mine.step.load()) + ", command " +
                std::to_string(mine.command.load()) + ") of all ranks");
  }
  return {};
}

JobMember::Presence LocalMember::presenceOf(int rank) const {
  const RankState &peer = page.rank(rank);
  switch (peer.phase.load(std::memory_order_acquire)) {
  case RankPhase::Starting:
  case RankPhase::Joining:
    return Presence::Expected;
  case RankPhase::Running:
    // The launcher of another machine sees the end of its ranks, and ends all.
    if (!here().has(rank))
      return Presence::Present;
    return isAlive(peer.process) ? Presence::Present : Presence::Dead;
  case RankPhase::Left:
    break;
  }
  return Presence::Left;
}

Result<void> LocalMember::checkLauncher() {
  const ProcessName &launcher = page.header().launcher;
  if (isAlive(launcher))
    return {};
  return fail("the launcher (process " + std::to_string(launcher.pid) +
              ") ended before its ranks");
}

} // namespace

Result<std::unique_ptr<JobControl>> createJob(const JobOptions &options) {
  if (options.ranks < 1)
    return Error{"a job needs at least one rank", Error::Fault::Rank};
  RankRange here = options.here.value_or(RankRange{0, options.ranks});
  if (here.count < 1 || here.first < 0 || here.end() > options.ranks)
    return Error{"a machine cannot run ranks " + std::to_string(here.first) +
                     " to " + std::to_string(here.end() - 1) + " of " +
                     std::to_string(options.ranks),
                 Error::Fault::Rank};
  if (here.count > maxRanksOfOneMachine)
    return Error{
        "the plan has " + std::to_string(options.ranks) + " ranks, and " +
        (here.count == options.ranks ? "all" : std::to_string(here.count)) +
        " of them run on this machine, which takes at "
        "most " +
        std::to_string(maxRanksOfOneMachine) +
        ": compile it for a smaller mesh"};
  POLYRANK_ASSIGN(file, createSharedMemory("polyrank-job",
                                           JobPage::sizeFor(options.ranks)));
  // Spinning pays only if nobody else needs the core meanwhile.
  bool fits = options.alone.value_or(
      int64_t(here.count) * options.threadsPerRank <= usableCores());
  POLYRANK_ASSIGN(page,
                  JobPage::initialize(file.get(), options.ranks, here,
                                      fits ? spinNanosecondsWhenAlone : 0));
  Descriptor bell;
  if (page.isShared()) {
    bell = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (bell.get() < 0)
      return Error{std::string("no file by which ranks tell that they have "
                               "come to a barrier: ") +
                       std::strerror(errno),
                   Error::Fault::Rank};
  }
  return std::unique_ptr<JobControl>(
      new LocalControl(std::move(file), std::move(bell), std::move(page)));
}

Result<std::unique_ptr<JobMember>> joinJob(std::span<const int> descriptors,
                                           int rank) {
  failpoint("attach.before");
  Error others{"rank " + std::to_string(rank) + " was handed " +
                   std::to_string(descriptors.size()) +
                   " files to join its job by, instead of the job's page",
               Error::Fault::Rank};
  if (descriptors.empty())
    return others;
  POLYRANK_ASSIGN(page, JobPage::map(descriptors[0]));
  if (descriptors.size() != (page.isShared() ? 2 : 1))
    return others;
  if (rank < 0 || rank >= page.worldSize())
    return Error{"rank " + std::to_string(rank) + " is none of the " +
                     std::to_string(page.worldSize()) + " ranks of the job",
                 Error::Fault::Rank};
  if (!page.here().has(rank))
    return Error{"rank " + std::to_string(rank) +
                     " runs on another machine: this one has ranks " +
                     std::to_string(page.here().first) + " to " +
                     std::to_string(page.here().end() - 1),
                 Error::Fault::Rank};
  Descriptor bell;
  if (page.isShared()) {
    bell = Descriptor(fcntl(descriptors[1], F_DUPFD_CLOEXEC, 0));
    if (bell.get() < 0)
      return Error{std::string("the file by which ranks tell that they have "
                               "come to a barrier: ") +
                       std::strerror(errno),
                   Error::Fault::Rank};
  }
  RankState &state = page.rank(rank);
  RankPhase starting = RankPhase::Starting;
  if (!state.phase.compare_exchange_strong(starting, RankPhase::Joining))
    return Error{"rank " + std::to_string(rank) + " was started twice",
                 Error::Fault::Rank};
  failpoint("attach.before_map");
  state.process = thisProcess();
  state.phase.store(RankPhase::Running, std::memory_order_release);
  failpoint("attach.after");
  return std::unique_ptr<JobMember>(
      new LocalMember(std::move(page), std::move(bell), rank));
}

} // namespace polyrank::runtime::local
