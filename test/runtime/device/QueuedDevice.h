// A device that behaves like a GPU: its addresses are not valid in this
// process, it works in the background, and only queues and events order its
// work.

#pragma once

#include "runtime/device/DeviceAccess.h"
#include "runtime/device/cpu/CpuDevice.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace polyrank::runtime::test {

/// Computes what a CpuDevice computes. Each queue is a thread that delays every
/// operation, so that a missing event is detected. Uploads go through a copy,
/// in which all bytes that were not filled are 0xcd.
class QueuedDevice : public Device {
public:
  explicit QueuedDevice(std::unique_ptr<CpuDevice> given,
                        Queue slow = Queue::Compute)
      : cpu(std::move(given)), slow(slow) {
    for (int queue = 0; queue < numQueues; ++queue)
      lines[queue].worker = std::thread([this, queue] { work(lines[queue]); });
  }
  ~QueuedDevice() override {
    drain();
    {
      std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    for (Line &line : lines)
      line.worker.join();
  }

  Result<DeviceMemory> allocate(uint64_t bytes, uint64_t alignment) override {
    auto memory = cpu->allocate(bytes, alignment);
    if (!memory)
      return memory.error();
    std::lock_guard lock(mutex);
    uint64_t begin = ++regions << 40; // not mapped in this process
    DeviceSpan host = memory->span();
    held.emplace(begin, *std::move(memory));
    return DeviceMemory({DeviceAccess::addressOf(begin), host.size},
                        [this, begin](DeviceSpan) {
                          drain();
                          std::lock_guard lock(mutex);
                          held.erase(begin);
                        });
  }
  Result<void> adopt(DeviceSpan) override { return {}; }

  Result<Event> upload(DeviceSpan to, const Fill &fill, Event after) override {
    auto staged =
        std::make_shared<std::vector<std::byte>>(to.size, std::byte(0xcd));
    if (Result<void> filled = fill(*staged); !filled)
      return filled.error();
    std::byte *memory = hostOf(to.address);
    return put(Queue::Copies, after, [=]() -> Result<void> {
      std::memcpy(memory, staged->data(), staged->size());
      return {};
    });
  }
  Result<Downloaded> download(DeviceSpan from, Event after) override {
    if (Result<void> over = synchronize(after); !over)
      return over.error();
    auto copy = std::make_unique<std::byte[]>(from.size);
    std::memcpy(copy.get(), hostOf(from.address), from.size);
    return Downloaded(std::move(copy), from.size);
  }

  Result<Event> enqueue(Operation &operation, Invocation invocation,
                        Event after) override {
    return put(Queue::Compute, after,
               [&operation, invocation] { return operation.run(invocation); });
  }
  Result<void> synchronize(Event event) override {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return isOver(event); });
    return failure ? *failure : Result<void>();
  }

  Prepared prepare(const plan::Launch &launch,
                   const ArenaView &arena) override {
    return cpu->prepare(launch, hostArena(arena));
  }
  Prepared prepare(const plan::Call &call, const ArenaView &arena) override {
    return cpu->prepare(call, hostArena(arena));
  }
  Prepared prepare(const plan::Copy &copy, int64_t index,
                   const ArenaView &arena) override {
    return cpu->prepare(copy, index, hostArena(arena));
  }
  void parallelFor(int64_t range, int64_t grain,
                   const std::function<void(int64_t, int64_t)> &body) override {
    cpu->parallelFor(range, grain, body);
  }
  Result<DeviceRates>
  measureRates(std::span<const ElementType> narrow) override {
    return cpu->measureRates(narrow);
  }

  /// The number of operations that are not over yet.
  uint64_t pending() {
    std::lock_guard lock(mutex);
    uint64_t sum = 0;
    for (const Line &line : lines)
      sum += line.given - line.done;
    return sum;
  }

private:
  struct Task {
    Event after;
    std::function<Result<void>()> body;
  };
  struct Line {
    std::thread worker;
    std::deque<Task> tasks;
    uint64_t given = 0, done = 0;
  };

  Result<Event> put(Queue queue, Event after,
                    std::function<Result<void>()> body) {
    std::lock_guard lock(mutex);
    if (failure)
      return *failure;
    Line &line = lines[int(queue)];
    line.tasks.push_back({after, std::move(body)});
    changed.notify_all();
    return Event{queue, ++line.given};
  }

  void work(Line &line) {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] {
        return ends || (!line.tasks.empty() && isOver(line.tasks[0].after));
      });
      if (ends)
        return;
      Task task = std::move(line.tasks.front());
      line.tasks.pop_front();
      lock.unlock();
      if (&line == &lines[int(slow)])
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Result<void> done = task.body();
      lock.lock();
      if (!done && !failure)
        failure = done.error();
      ++line.done;
      changed.notify_all();
    }
  }

  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      return std::all_of(lines.begin(), lines.end(), [](const Line &line) {
        return line.given == line.done;
      });
    });
  }

  bool isOver(Event event) const {
    return lines[int(event.queue)].done >= event.number;
  }
  std::byte *hostOf(DeviceAddress address) {
    std::lock_guard lock(mutex);
    uint64_t value = DeviceAccess::valueOf(address);
    uint64_t begin = value >> 40 << 40;
    return DeviceAccess::pointerTo(held.at(begin).span().address) +
           (value - begin);
  }
  ArenaView hostArena(ArenaView arena) {
    for (DeviceSpan *region : {&arena.sharedRegion, &arena.privateRegion})
      if (region->address)
        region->address = DeviceAccess::addressOf(hostOf(region->address));
    return arena;
  }

  std::unique_ptr<CpuDevice> cpu;
  Queue slow;
  std::mutex mutex;
  std::condition_variable changed;
  std::array<Line, numQueues> lines;
  std::map<uint64_t, DeviceMemory> held; // by the first of its addresses
  uint64_t regions = 0;
  std::optional<Error> failure;
  bool ends = false;
};

} // namespace polyrank::runtime::test
