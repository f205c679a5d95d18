// Creates the memfds of a job's communication.

#include "runtime/comm/shm/ShmMemory.h"

#include <sys/resource.h>
#include <utility>

namespace polyrank::runtime::shm {
namespace {

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

Result<Memory> Memory::create(const MemoryOptions &options) {
  int ranks = static_cast<int>(options.sharedSizes.size());
  if (ranks < 1 || options.groupCapacity < 1)
    return Error{"a job needs at least one rank", Error::Fault::Rank};
  if (Result<void> allowed = allowDescriptors(ranks); !allowed)
    return allowed.error();
  Memory memory;
  POLYRANK_ASSIGN(
      control,
      createSharedMemory("polyrank-control",
                         ControlPage::sizeFor(ranks, options.groupCapacity)));
  POLYRANK_ASSIGN(page, ControlPage::initialize(control.get(), ranks,
                                                options.groupCapacity,
                                                options.program));
  memory.control = std::move(page);
  memory.files.push_back(std::move(control));
  for (uint64_t size : options.sharedSizes) {
    POLYRANK_ASSIGN(arena, createSharedMemory("polyrank-arena", size));
    memory.files.push_back(std::move(arena));
  }
  return std::move(memory);
}

std::vector<int> Memory::descriptors() const {
  std::vector<int> numbers;
  for (const Descriptor &file : files)
    numbers.push_back(file.get());
  return numbers;
}

} // namespace polyrank::runtime::shm
