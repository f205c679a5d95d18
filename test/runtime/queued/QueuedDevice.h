// A device that behaves like a GPU: its addresses are not valid in this
// process, it works in the background, and only queues and events order its
// work.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/DeviceAccess.h"
#include "test/runtime/queued/WorkQueues.h"

#include <cstring>
#include <utility>

namespace polyrank::runtime::test {

/// Computes what another device computes that works on return. Uploads go
/// through a copy, in which all bytes that were not filled are 0xcd. Its queues
/// are the first of `queues`.
class QueuedDevice : public Device {
public:
  QueuedDevice(std::unique_ptr<Device> given,
               std::shared_ptr<WorkQueues> queues)
      : inner(std::move(given)), queues(std::move(queues)) {}
  ~QueuedDevice() override { queues->drain(); }

  Result<DeviceMemory> allocate(uint64_t bytes, uint64_t alignment,
                                Sharing sharing = Sharing::Private) override {
    POLYRANK_ASSIGN(memory, inner->allocate(bytes, alignment, sharing));
    if (bytes == 0)
      return DeviceMemory();
    uint64_t begin = queues->hold(std::move(memory));
    return DeviceMemory({DeviceAccess::addressOf(begin), bytes},
                        [this, begin](DeviceSpan) {
                          queues->drain();
                          queues->release(begin);
                        });
  }

  Result<Event> upload(DeviceSpan to, const Fill &fill, Events after) override {
    auto staged =
        std::make_shared<std::vector<std::byte>>(to.size, std::byte(0xcd));
    if (Result<void> filled = fill(*staged); !filled)
      return filled.error();
    return put(Queue::CopiesIn, after, [=, this]() -> Result<void> {
      std::memcpy(pointerTo(to), staged->data(), staged->size());
      return {};
    });
  }
  Result<Downloaded> download(DeviceSpan from, Events after) override {
    POLYRANK_ASSIGN(reading, read(from, after));
    POLYRANK_ASSIGN(bytes, reading.bytes());
    auto copy = std::make_unique<std::byte[]>(from.size);
    std::memcpy(copy.get(), bytes.data(), from.size);
    return Downloaded(std::move(copy), from.size);
  }
  Result<Reading> read(DeviceSpan from, Events after) override {
    auto memory = std::shared_ptr<std::byte[]>(new std::byte[from.size]);
    POLYRANK_ASSIGN(over,
                    put(Queue::CopiesOut, after, [=, this]() -> Result<void> {
                      std::memcpy(memory.get(), pointerTo(from), from.size);
                      return {};
                    }));
    return Reading(std::move(over), memory, from.size);
  }
  Result<Event> copy(DeviceSpan from, DeviceSpan to, Events after) override {
    return put(Queue::Compute, after, [=, this]() -> Result<void> {
      std::memcpy(pointerTo(to), pointerTo(from), from.size);
      return {};
    });
  }
  Result<Event> enqueue(Operation &operation, Invocation invocation,
                        Events after) override {
    return put(Queue::Compute, after,
               [&operation, invocation] { return operation.run(invocation); });
  }
  Result<void> mark(std::atomic<uint64_t> &word, uint64_t value,
                    Events after) override {
    POLYRANK_ASSIGN(
        over, queues->put(markQueue, after, [&word, value]() -> Result<void> {
          word.store(value);
          return {};
        }));
    (void)over;
    return {};
  }

  Prepared prepare(const plan::Launch &launch,
                   const ArenaView &arena) override {
    return inner->prepare(launch, hostArena(arena));
  }
  Prepared prepare(const plan::Call &call, const ArenaView &arena) override {
    return inner->prepare(call, hostArena(arena));
  }
  Prepared prepare(const plan::Copy &copy, int64_t index,
                   const ArenaView &arena) override {
    return inner->prepare(copy, index, hostArena(arena));
  }
  Result<Trials> prepareTrials(const TrialWork &work) override {
    queues->drain();
    return inner->prepareTrials(work);
  }

  uint64_t pending() const { return queues->pending(); }

private:
  Result<Event> put(Queue queue, Events after, WorkQueues::Body body) {
    return queues->put(static_cast<size_t>(queue), after, std::move(body));
  }

  DeviceSpan hostOf(DeviceSpan span) const { return queues->hostOf(span); }
  std::byte *pointerTo(DeviceSpan span) {
    return DeviceAccess::pointerTo(hostOf(span).address);
  }
  ArenaView hostArena(ArenaView arena) {
    arena.sharedRegion = hostOf(arena.sharedRegion);
    arena.privateRegion = hostOf(arena.privateRegion);
    return arena;
  }

  std::unique_ptr<Device> inner;
  std::shared_ptr<WorkQueues> queues;
};

} // namespace polyrank::runtime::test
