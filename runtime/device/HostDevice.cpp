// The memory of a host device: mmap with alignment to huge pages, of a memfd if
// it is shared. Uploads and downloads fill and read it in place, without a
// copy.

#include "runtime/device/HostDevice.h"

#include "runtime/device/DeviceAccess.h"
#include "support/SharedMemory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace polyrank::runtime {
namespace {

constexpr uint64_t page = 4096, hugePage = 2 << 20;

uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The same for a lack of addresses in both kinds of memory.
Error allocationError(uint64_t bytes, const char *kind) {
  return {"cannot allocate the plan's " + std::to_string(bytes) + " bytes of " +
              kind + " memory: " + std::strerror(errno),
          Error::Fault::Rank};
}

} // namespace

Result<DeviceMemory> HostDevice::allocate(uint64_t bytes, uint64_t alignment,
                                          Sharing sharing) {
  if (bytes == 0)
    return DeviceMemory();
  bool isShared = sharing == Sharing::Peers;
  const char *kind = isShared ? "shared" : "private";
  Descriptor file;
  if (isShared) {
    POLYRANK_ASSIGN(made, createSharedMemory("polyrank-arena", bytes));
    file = std::move(made);
  }
  uint64_t rounded = roundUp(bytes, page);
  // Address space is free: reserves more, and keeps the aligned part.
  uint64_t step = std::max(alignment, hugePage), reserved = rounded + step;
  void *mapping = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return allocationError(bytes, kind);
  auto start = reinterpret_cast<uintptr_t>(mapping);
  uintptr_t aligned = roundUp(start, step);
  if (aligned > start)
    munmap(mapping, aligned - start);
  if (uint64_t behind = start + reserved - (aligned + rounded); behind > 0)
    munmap(reinterpret_cast<void *>(aligned + rounded), behind);
  auto *memory = reinterpret_cast<std::byte *>(aligned);
  DeviceMemory result(
      DeviceAccess::spanOf({memory, bytes}),
      [rounded](DeviceSpan span) {
        munmap(DeviceAccess::pointerTo(span.address), rounded);
      },
      std::move(file));
  if (isShared) {
    if (mmap(memory, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             DeviceAccess::descriptorOf(result), 0) == MAP_FAILED)
      return allocationError(bytes, kind);
  } else {
    // A hint: without it the program is correct but slower.
    madvise(memory, rounded, MADV_HUGEPAGE);
  }
  if (Result<void> there = findPages({memory, bytes}); !there)
    return there.error();
  return result;
}

Result<void> HostDevice::findPages(std::span<std::byte> memory) {
  constexpr int64_t piece = 32 << 20; // whole huge pages
  std::atomic<int> failure = 0;
  auto pieces = static_cast<int64_t>((memory.size() + piece - 1) / piece);
  parallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
    auto part = memory.subspan(begin * piece,
                               std::min<uint64_t>(end * piece, memory.size()) -
                                   begin * piece);
    if (madvise(part.data(), part.size(), MADV_POPULATE_WRITE) != 0 &&
        errno != EINVAL) // before Linux 5.14: pages are allocated on use
      failure = errno;
  });
  if (failure)
    return Error{"no memory for " + std::to_string(memory.size()) +
                     " bytes of the arena: " + std::strerror(failure),
                 Error::Fault::Rank};
  return {};
}

Result<Event> HostDevice::upload(DeviceSpan to, const Fill &fill,
                                 Events after) {
  if (Result<void> over = await(after); !over)
    return over.error();
  if (Result<void> filled = fill(DeviceAccess::bytesOf(to)); !filled)
    return filled.error();
  return Event::over(eventClock());
}

Result<Downloaded> HostDevice::download(DeviceSpan from, Events after) {
  if (Result<void> over = await(after); !over)
    return over.error();
  return Downloaded(DeviceAccess::bytesOf(from));
}

Result<Reading> HostDevice::read(DeviceSpan from, Events after) {
  if (Result<void> over = await(after); !over)
    return over.error();
  std::shared_ptr<std::byte[]> memory =
      std::make_shared_for_overwrite<std::byte[]>(from.size);
  std::memcpy(memory.get(), DeviceAccess::pointerTo(from.address), from.size);
  return Reading(Event::over(eventClock()), std::move(memory), from.size);
}

Result<Event> HostDevice::copy(DeviceSpan from, DeviceSpan to, Events after) {
  if (Result<void> over = await(after); !over)
    return over.error();
  std::byte *source = DeviceAccess::pointerTo(from.address),
            *target = DeviceAccess::pointerTo(to.address);
  constexpr int64_t grain = 1 << 20;
  parallelFor(static_cast<int64_t>(from.size), grain,
              [&](int64_t begin, int64_t end) {
                std::memcpy(target + begin, source + begin,
                            static_cast<size_t>(end - begin));
              });
  return Event::over(eventClock());
}

Result<Event> HostDevice::enqueue(Operation &operation, Invocation invocation,
                                  Events after) {
  if (Result<void> over = await(after); !over)
    return over.error();
  if (Result<void> done = operation.run(invocation); !done)
    return done.error();
  return Event::over(eventClock());
}

Result<void> HostDevice::mark(std::atomic<uint64_t> &word, uint64_t value,
                              Events after) {
  if (Result<void> over = await(after); !over)
    return over;
  word.store(value, std::memory_order_release);
  return {};
}

} // namespace polyrank::runtime
