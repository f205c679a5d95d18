// Windows and their rounds.

#include "runtime/job/Window.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <utility>

namespace polyrank::runtime {

Result<Window> Window::create(uint64_t bytes, const std::string &what) {
  Window window;
  Result<Descriptor> file = createSharedMemory("polyrank-window", bytes);
  if (!file)
    return file.error().saying("no memory for " + what + ": " +
                               file.error().message);
  window.file = *std::move(file);
  POLYRANK_ASSIGN(mapping, SharedMapping::map(window.file.get(), what));
  window.mapping = std::move(mapping);
  return std::move(window);
}

Result<Window> Window::map(int descriptor, uint64_t bytes,
                           const std::string &what) {
  Window window;
  POLYRANK_ASSIGN(mapping, SharedMapping::map(descriptor, what));
  if (mapping.size() != bytes)
    return Error{"the launcher made a memory of " +
                     std::to_string(mapping.size()) + " bytes for " + what +
                     ", and this rank needs " + std::to_string(bytes) +
                     ": they have read different files; start the run again",
                 Error::Fault::Rank};
  window.mapping = std::move(mapping);
  return std::move(window);
}

Result<void> Window::clear() {
  if (mapping.size() > 0 &&
      fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(mapping.size())) != 0)
    return Error{"cannot clear " + std::to_string(mapping.size()) +
                     " bytes of shared memory: " + std::strerror(errno),
                 Error::Fault::Rank};
  return {};
}

Result<std::span<std::byte>> WindowRounds::begin() {
  // With several parts, a rank that fills a part again has seen all others come
  // to `filled` of a later round, and so past reading this one.
  if (parts == 1 && rounds > 0)
    if (Result<void> all = job.barrier(); !all)
      return all.error();
  size_t part = static_cast<size_t>(rounds++ % static_cast<uint64_t>(parts));
  return memory.subspan(part * partBytes(), partBytes());
}

Result<void> WindowRounds::filled(uint64_t begin, uint64_t end) {
  uint64_t part = (rounds - 1) % static_cast<uint64_t>(parts) * partBytes();
  return job.gather(part + begin, part + end);
}

} // namespace polyrank::runtime
