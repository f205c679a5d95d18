// Creates the control page and the sockets of a job's communication.

#include "runtime/comm/shm/ShmMemory.h"

#include <sys/resource.h>
#include <utility>

namespace polyrank::runtime::shm {
namespace {

/// Raises the limit of descriptors: the job has two for each rank's memory and
/// one for its reports, besides those of libraries.
Result<void> allowDescriptors(int ranks) {
  constexpr rlim_t others = 64;
  rlim_t needed = 3 * rlim_t(ranks) + others;
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
  int ranks = static_cast<int>(options.slotBytes.size());
  if (ranks < 1 || options.groupCapacity < 1)
    return Error{"a job needs at least one rank", Error::Fault::Rank};
  int near = options.near.value_or(ranks);
  if (Result<void> allowed = allowDescriptors(near); !allowed)
    return allowed.error();
  Memory memory;
  POLYRANK_ASSIGN(
      file, createSharedMemory("polyrank-control",
                               ControlPage::sizeFor(options.slotBytes,
                                                    options.groupCapacity)));
  POLYRANK_ASSIGN(page, ControlPage::initialize(file.get(), options.slotBytes,
                                                options.groupCapacity,
                                                options.program));
  memory.file = std::move(file);
  memory.control = std::move(page);
  for (int rank = 0; rank < near; ++rank) {
    POLYRANK_ASSIGN(post, MemoryPost::create());
    memory.posts.push_back(std::move(post));
  }
  return std::move(memory);
}

std::vector<int> Memory::descriptors() const {
  std::vector<int> numbers{file.get()};
  for (const MemoryPost &post : posts) {
    numbers.push_back(post.sending.get());
    numbers.push_back(post.receiving.get());
  }
  return numbers;
}

} // namespace polyrank::runtime::shm
