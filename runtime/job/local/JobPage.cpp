// The layout of a job's memory, and what it says about ranks.

#include "runtime/job/local/JobPage.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::local {
namespace {

constexpr uint64_t ranksOffset = (sizeof(JobHeader) + 4095) / 4096 * 4096;

/// The number of words of a set of ranks.
uint64_t wordsOf(uint64_t worldSize) { return (worldSize + 63) / 64; }

} // namespace

uint64_t JobPage::sizeFor(int worldSize) {
  uint64_t ranks = static_cast<uint64_t>(worldSize);
  return ranksOffset +
         ranks * (sizeof(RankState) + wordsOf(ranks) * sizeof(uint64_t));
}

Result<JobPage> JobPage::initialize(int descriptor, int worldSize,
                                    uint64_t spinNanoseconds) {
  return initialize(descriptor, worldSize, {0, worldSize}, spinNanoseconds);
}

Result<JobPage> JobPage::initialize(int descriptor, int worldSize,
                                    RankRange here, uint64_t spinNanoseconds) {
  JobPage page;
  POLYRANK_ASSIGN(memory, SharedMapping::map(descriptor, "the job's page"));
  page.memory = std::move(memory);
  JobHeader &header = page.header();
  header.version = jobVersion;
  header.worldSize = static_cast<uint32_t>(worldSize);
  header.firstHere = static_cast<uint32_t>(here.first);
  header.ranksHere = static_cast<uint32_t>(here.count);
  header.spinNanoseconds = spinNanoseconds;
  header.launcher = thisProcess();
  return std::move(page);
}

Result<JobPage> JobPage::map(int descriptor) {
  JobPage page;
  POLYRANK_ASSIGN(memory, SharedMapping::map(descriptor, "the job's page"));
  page.memory = std::move(memory);
  if (page.memory.size() < ranksOffset || page.header().version != jobVersion ||
      page.memory.size() != sizeFor(page.worldSize()))
    return Error{"the memory that was handed over is not the page of a job of "
                 "this build",
                 Error::Fault::Rank};
  return std::move(page);
}

JobHeader &JobPage::header() const {
  return *reinterpret_cast<JobHeader *>(memory.data());
}

RankState &JobPage::rank(int rank) const {
  return reinterpret_cast<RankState *>(memory.data() + ranksOffset)[rank];
}

std::span<std::atomic<uint64_t>> JobPage::blockerWords(int rank) const {
  uint64_t ranks = header().worldSize, words = wordsOf(ranks);
  auto *all = reinterpret_cast<std::atomic<uint64_t> *>(
      memory.data() + ranksOffset + ranks * sizeof(RankState));
  return {all + uint64_t(rank) * words, words};
}

void JobPage::setBlockers(int rank, std::span<const int> ranks) const {
  auto words = blockerWords(rank);
  size_t next = 0;
  for (size_t w = 0; w < words.size(); ++w) {
    uint64_t set = 0;
    for (; next < ranks.size() && size_t(ranks[next]) / 64 == w; ++next)
      set |= uint64_t(1) << (ranks[next] % 64);
    words[w].store(set, std::memory_order_relaxed);
  }
}

std::vector<int> JobPage::blockersOf(int rank) const {
  std::vector<int> ranks;
  auto words = blockerWords(rank);
  for (size_t w = 0; w < words.size(); ++w)
    for (uint64_t set = words[w].load(); set; set &= set - 1)
      ranks.push_back(static_cast<int>(w * 64) + std::countr_zero(set));
  return ranks;
}

bool JobPage::isInBarrier(int number) const {
  uint32_t latest = rank(number).barriers.load();
  return int32_t(header().barriersOver.load() - latest) < 0;
}

std::vector<int> JobPage::missingInBarrierOf(int self) const {
  std::vector<int> missing;
  if (!isInBarrier(self))
    return missing;
  uint32_t number = rank(self).barriers.load();
  for (int other = 0; other < worldSize(); ++other)
    if (int32_t(rank(other).barriers.load() - number) < 0)
      missing.push_back(other);
  return missing;
}

RankWait JobPage::waitOf(int number) const {
  if (std::vector<int> missing = missingInBarrierOf(number); !missing.empty())
    return {RankWait::What::Barrier, std::move(missing)};
  const RankState &state = rank(number);
  // A wait that begins meanwhile is read again, a few times.
  for (int attempt = 0; attempt < 8; ++attempt) {
    uint64_t token = state.waiting.load();
    if (token == 0)
      return {};
    RankWait wait{state.what.load(), blockersOf(number)};
    if (state.waiting.load() == token)
      return wait;
  }
  return {};
}

RankReport JobPage::report(int number) const {
  const RankState &state = rank(number);
  RankReport report;
  report.phase = state.phase.load(std::memory_order_acquire);
  if (report.phase == RankPhase::Running || report.phase == RankPhase::Left)
    report.pid = state.process.pid;
  // First what is done, so that it is never later than what was issued.
  uint64_t device = state.device.load();
  report.issued = {state.step.load(), state.command.load()};
  Position at =
      device ? std::min(Position::of(device), report.issued) : report.issued;
  report.step = at.step;
  report.command = at.command;
  report.isBeside = state.isBeside.load();
  report.operation = state.operation.load();
  report.waiting = state.waiting.load() != 0 || isInBarrier(number);
  report.beats = state.beats.load() + state.deviceBeside.load();
  return report;
}

void JobPage::setRemote(int number, const RankReport &report,
                        const RankWait &wait, uint32_t barriers) const {
  RankState &state = rank(number);
  // A rank that has left has come to all its barriers: its phase is last.
  state.barriers.store(barriers);
  state.step.store(report.issued.step);
  state.command.store(report.issued.command);
  Position at{report.step, report.command};
  state.device.store(at < report.issued ? at.word() : 0);
  state.isBeside.store(report.isBeside);
  state.operation.store(report.operation);
  state.beats.store(report.beats);
  // Barriers are counted; what is left of `waiting` is a wait of another kind.
  bool waits = wait.what != RankWait::What::Nothing &&
               wait.what != RankWait::What::Barrier;
  constexpr uint64_t remoteToken = uint64_t(1) << 63;
  std::vector<int> blockers;
  for (int each : wait.ranks)
    if (each >= 0 && each < worldSize())
      blockers.push_back(each);
  std::sort(blockers.begin(), blockers.end());
  if (state.waiting.load() == 0 || state.what.load() != wait.what ||
      blockersOf(number) != blockers) {
    state.waiting.store(0);
    setBlockers(number, blockers);
    state.what.store(wait.what);
  }
  state.waiting.store(waits ? remoteToken : 0);
  if (state.phase.load() < RankPhase::Running)
    state.process.pid = report.pid;
  state.phase.store(report.phase, std::memory_order_release);
}

void JobPage::endBarrier(uint32_t number, int lastToCome) const {
  JobHeader &job = header();
  job.lastToCome.store(lastToCome);
  job.barriersOver.store(number);
  if (job.sleepers.load() > 0)
    wakeAll(job.barriersOver);
}

void JobPage::abort(std::string_view message) const {
  JobHeader &job = header();
  AbortState running = AbortState::Running;
  if (job.aborted.compare_exchange_strong(running, AbortState::Writing)) {
    size_t length = std::min(message.size(), messageCapacity - 1);
    std::memcpy(job.message, message.data(), length);
    job.message[length] = '\0';
    job.aborted.store(AbortState::Aborted);
  }
  wakeAll(job.barriersOver);
}

Result<void> JobPage::health() const {
  JobHeader &job = header();
  AbortState state = job.aborted.load(std::memory_order_acquire);
  if (state == AbortState::Running)
    return {};
  // The author writes the message promptly, unless it was preempted; but it may
  // also die while writing.
  for (int wait = 0; state == AbortState::Writing && wait < 100; ++wait) {
    usleep(1000);
    state = job.aborted.load(std::memory_order_acquire);
  }
  if (state == AbortState::Writing)
    return Error{"the job was aborted", Error::Fault::Rank};
  return Error{job.message, Error::Fault::Rank};
}

} // namespace polyrank::runtime::local
