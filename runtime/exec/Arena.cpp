// mmap with alignment to huge pages.

#include "runtime/exec/Arena.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace polyrank::runtime {

Result<PrivateRegion> PrivateRegion::allocate(uint64_t size) {
  if (size == 0)
    return PrivateRegion(std::span<std::byte>());
  constexpr uint64_t hugePage = 2 << 20, page = 4096;
  uint64_t rounded = (size + page - 1) / page * page;
  // Addresses cost nothing: take more, keep what starts at a huge page.
  uint64_t reserved = rounded + hugePage;
  void *mapping = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return Error{"cannot allocate the plan's " + std::to_string(size) +
                     " bytes of private memory: " + std::strerror(errno),
                 Error::Fault::Rank};
  auto start = reinterpret_cast<uintptr_t>(mapping);
  uintptr_t aligned = (start + hugePage - 1) / hugePage * hugePage;
  if (aligned > start)
    munmap(mapping, aligned - start);
  uint64_t behind = start + reserved - (aligned + rounded);
  if (behind > 0)
    munmap(reinterpret_cast<void *>(aligned + rounded), behind);
  // Advice: without it the program is right and slower.
  madvise(reinterpret_cast<void *>(aligned), rounded, MADV_HUGEPAGE);
  return PrivateRegion({reinterpret_cast<std::byte *>(aligned), size});
}

PrivateRegion::PrivateRegion(PrivateRegion &&other) noexcept
    : bytes(other.bytes) {
  other.bytes = {};
}

PrivateRegion::~PrivateRegion() {
  if (!bytes.empty())
    munmap(bytes.data(), bytes.size());
}

Result<void> touchMemory(std::span<std::byte> memory, Device &device) {
  constexpr int64_t piece = 32 << 20; // whole huge pages
  std::atomic<int> failure = 0;
  auto pieces = static_cast<int64_t>((memory.size() + piece - 1) / piece);
  device.parallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
    auto part = memory.subspan(
        begin * piece,
        std::min<uint64_t>(end * piece, memory.size()) - begin * piece);
    if (madvise(part.data(), part.size(), MADV_POPULATE_WRITE) != 0 &&
        errno != EINVAL) // before Linux 5.14: pages come as they are used
      failure = errno;
  });
  if (failure)
    return Error{"no memory for " + std::to_string(memory.size()) +
                     " bytes of the arena: " + std::strerror(failure),
                 Error::Fault::Rank};
  return {};
}

ResidentMemory residentMemory() {
  ResidentMemory result;
  FILE *file = std::fopen("/proc/self/status", "re");
  if (!file)
    return result;
  char line[256];
  unsigned long long kilobytes;
  while (std::fgets(line, sizeof(line), file)) {
    if (std::sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1)
      result.peak = kilobytes << 10;
    if (std::sscanf(line, "RssAnon: %llu kB", &kilobytes) == 1)
      result.anonymous = kilobytes << 10;
    if (std::sscanf(line, "RssShmem: %llu kB", &kilobytes) == 1)
      result.shared = kilobytes << 10;
  }
  std::fclose(file);
  return result;
}

} // namespace polyrank::runtime
