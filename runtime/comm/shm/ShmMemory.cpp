// Creates the memfds of a job and passes them on.

#include "runtime/comm/shm/ShmMemory.h"

#include "support/Cores.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::shm {
namespace {

constexpr uint64_t spinNanosecondsWhenAlone = 50'000;
/// More ranks than any machine has cores for, and few enough for sizes that
/// grow with the square of the number of ranks.
constexpr int maxRanksOfOneMachine = 4096;

/// Creates an anonymous file of fixed size: nobody can shrink it under a
/// mapping.
Result<int> createMemory(const char *name, uint64_t size) {
  int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0 || ftruncate(descriptor, size) != 0 ||
      fcntl(descriptor, F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int code = errno;
    if (descriptor >= 0)
      close(descriptor);
    return Error{"making shared memory of " + std::to_string(size) +
                     " bytes: " + std::strerror(code),
                 Error::Fault::Rank};
  }
  return descriptor;
}

/// Raises the limit of descriptors: the job has one for each rank's arena and
/// one for its reports, besides those of libraries.
Result<void> allowDescriptors(int ranks) {
  constexpr rlim_t others = 64;
  rlim_t needed = 2 * rlim_t(ranks) + others;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
    return {};
  rlim_t given = limit.rlim_cur;
  if (limit.rlim_max >= needed) {
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
      return {};
  }
  return Error{std::to_string(ranks) + " ranks need " + std::to_string(needed) +
               " open files, and this process may have " +
               std::to_string(given) + " (ulimit -n; at most " +
               std::to_string(limit.rlim_max) + " without more rights)"};
}

} // namespace

std::string JobDescriptors::text() const {
  std::string text = std::to_string(control);
  for (size_t r = 0; r < arenas.size(); ++r)
    text += (r == 0 ? ":" : ",") + std::to_string(arenas[r]);
  return text;
}

Result<JobDescriptors> JobDescriptors::parse(std::string_view text) {
  JobDescriptors result;
  const char *cursor = text.data(), *end = cursor + text.size();
  for (size_t n = 0;; ++n) {
    int number = -1;
    auto [after, status] = std::from_chars(cursor, end, number);
    if (status != std::errc() || number < 0)
      break;
    if (n == 0)
      result.control = number;
    else
      result.arenas.push_back(number);
    if (after == end && n > 0)
      return result;
    if (after == end || *after != (n == 0 ? ':' : ','))
      break;
    cursor = after + 1;
  }
  return Error{"not a list of the job's descriptors: '" + std::string(text) +
                   "'",
               Error::Fault::Rank};
}

Result<Job> Job::create(const JobOptions &options) {
  int ranks = static_cast<int>(options.sharedSizes.size());
  if (ranks < 1 || options.groupCapacity < 1)
    return Error{"a job needs at least one rank", Error::Fault::Rank};
  if (ranks > maxRanksOfOneMachine)
    return Error{"the plan has " + std::to_string(ranks) +
                 " ranks, and all of them run on this machine, which takes at "
                 "most " +
                 std::to_string(maxRanksOfOneMachine) +
                 ": compile it for a smaller mesh"};
  if (Result<void> allowed = allowDescriptors(ranks); !allowed)
    return allowed.error();
  Job job;
  POLYRANK_ASSIGN(control, createMemory("polyrank-control",
                                        ControlPage::sizeFor(
                                            ranks, options.groupCapacity)));
  job.files.control = control;
  for (uint64_t size : options.sharedSizes) {
    POLYRANK_ASSIGN(arena, createMemory("polyrank-arena", size));
    job.files.arenas.push_back(arena);
  }
  // Spinning pays only if nobody else needs the core meanwhile.
  bool fits = options.alone.value_or(int64_t(ranks) * options.threadsPerRank <=
                                     usableCores());
  POLYRANK_ASSIGN(page,
                  ControlPage::initialize(control, ranks, options.groupCapacity,
                                          fits ? spinNanosecondsWhenAlone : 0,
                                          options.program));
  job.control = std::move(page);
  return std::move(job);
}

Job::Job(Job &&other) noexcept
    : files(std::exchange(other.files, {})), control(std::move(other.control)) {
}

Job::~Job() {
  if (files.control >= 0)
    close(files.control);
  for (int arena : files.arenas)
    close(arena);
}

void Job::keepOpenOverExec() const {
  fcntl(files.control, F_SETFD, 0);
  for (int arena : files.arenas)
    fcntl(arena, F_SETFD, 0);
}

RankWait Job::waitOf(int rank) const {
  uint64_t word = control.rank(rank).waiting.load();
  if (word == 0)
    return {};
  if (ChannelWait::isOne(word)) {
    ChannelWait wait = ChannelWait::of(word);
    return {wait.isForRoom ? RankWait::What::Room : RankWait::What::Value,
            {static_cast<int>(wait.peer)}};
  }
  Wait wait = Wait::of(word);
  if (control.isOver(wait))
    return {};
  if (!wait.isForStarts())
    return {RankWait::What::Work, {}};
  return {RankWait::What::Starts, control.blockersOf(wait)};
}

RankReport Job::report(int rank) const {
  const RankState &state = control.rank(rank);
  RankReport report;
  report.phase = state.phase.load(std::memory_order_acquire);
  if (report.phase == RankPhase::Running)
    report.pid = state.process.pid;
  report.step = state.step.load();
  report.command = state.command.load();
  report.operation = state.operation.load();
  uint64_t waiting = state.waiting.load();
  report.waiting = waiting != 0 && (ChannelWait::isOne(waiting) ||
                                    !control.isOver(Wait::of(waiting)));
  report.beats = state.beats.load();
  return report;
}

} // namespace polyrank::runtime::shm
