// Work in the background, as on a GPU: queues of tasks that only events order.

#pragma once

#include "runtime/device/DeviceAccess.h"
#include "runtime/device/Event.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace polyrank::runtime::test {

/// How work is delayed.
struct QueueOptions {
  uint64_t seed = 1; // of the drawn delays
  /// Each task of a queue waits up to this long once its events are over; by
  /// queue.
  std::vector<std::chrono::microseconds> delays;
  /// Leaves out the events of this task, counted from 1 over all tasks that
  /// have events of another queue; 0: of none. The other queues then wait for
  /// the task, unless it cannot run before they go on.
  uint64_t leavesOut = 0;
};

/// The queues of a device, one for a communicator, and one for what only
/// publishes how far the others are: that one is neither pending nor left out.
inline constexpr size_t communicatorQueue = 3, markQueue = 4;
inline std::shared_ptr<class WorkQueues>
makeQueues(uint64_t seed,
           std::chrono::microseconds longest = std::chrono::milliseconds(1),
           uint64_t leavesOut = 0);

/// Each queue is a thread that runs its tasks one after another, each once its
/// events are over and a drawn delay has passed, so that a missing event shows.
class WorkQueues {
public:
  using Body = std::function<Result<void>()>;

  explicit WorkQueues(QueueOptions given)
      : options(std::move(given)), draws(options.seed),
        lines(options.delays.size()) {}
  ~WorkQueues() {
    drain();
    {
      std::lock_guard lock(shared->mutex);
      ends = true;
    }
    shared->changed.notify_all();
    for (Line &line : lines)
      if (line.worker.joinable())
        line.worker.join();
  }

  /// Lets `body` run after these events. An error of an earlier task is
  /// returned instead.
  Result<Event> put(size_t queue, Events after, Body body) {
    std::lock_guard lock(shared->mutex);
    if (shared->failure)
      return *shared->failure;
    std::vector<Event> events(after.begin(), after.end());
    auto signal = std::make_shared<Done>(shared, queue);
    if (queue != markQueue && crosses(events, queue) &&
        ++numbered == options.leavesOut) {
      for (const Event &event : events)
        if (auto *other = doneOf(event)) {
          if (other->isDone)
            isLate = true;
          else
            heldBack.push_back(other);
        }
      leftOut = signal;
      events.clear();
    }
    std::uniform_int_distribution<int64_t> drawn(0,
                                                 options.delays[queue].count());
    // A thread inherits the floating-point mode of the one that makes it.
    if (!lines[queue].worker.joinable())
      lines[queue].worker = std::thread([this, queue] { work(queue); });
    lines[queue].tasks.push_back({std::move(events), std::move(body), signal,
                                  std::chrono::microseconds(drawn(draws))});
    ++(queue == markQueue ? marks : unfinished);
    shared->changed.notify_all();
    return Event(signal);
  }

  /// Waits until everything is done.
  void drain() {
    std::unique_lock lock(shared->mutex);
    shared->changed.wait(lock, [&] { return unfinished + marks == 0; });
  }

  /// The number of tasks that are not over yet.
  uint64_t pending() const {
    std::lock_guard lock(shared->mutex);
    return unfinished;
  }
  /// The number of tasks so far that had events of another queue.
  uint64_t numCrossing() const {
    std::lock_guard lock(shared->mutex);
    return numbered;
  }
  /// True if the task without events ran before one of those it should have
  /// waited for.
  bool ranEarly() const {
    std::lock_guard lock(shared->mutex);
    return isEarly;
  }

  /// True if others of them were over before it ran, since they had waited for
  /// it in vain or were over already: what it found may be right or wrong.
  bool ranLate() const {
    std::lock_guard lock(shared->mutex);
    return isLate;
  }

  /// Keeps memory of a device under an address that is not valid in this
  /// process, which is returned.
  uint64_t hold(DeviceMemory memory) {
    std::lock_guard lock(shared->mutex);
    uint64_t begin = ++regions << 48;
    held.emplace(begin,
                 std::make_shared<const DeviceMemory>(std::move(memory)));
    return begin;
  }
  void release(uint64_t begin) {
    std::lock_guard lock(shared->mutex);
    held.erase(begin);
  }
  /// The whole memory behind such an address; null for others.
  std::shared_ptr<const DeviceMemory> heldAt(DeviceAddress address) const {
    std::lock_guard lock(shared->mutex);
    auto found = held.find(DeviceAccess::valueOf(address) >> 48 << 48);
    return found == held.end() ? nullptr : found->second;
  }
  /// The memory behind such an address; others are returned as they are.
  DeviceSpan hostOf(DeviceSpan span) const {
    std::lock_guard lock(shared->mutex);
    uint64_t value = DeviceAccess::valueOf(span.address);
    auto found = held.find(value >> 48 << 48);
    return found == held.end() ? span
                               : DeviceSpan{found->second->span().address +
                                                value % (1ull << 48),
                                            span.size};
  }

private:
  /// What events refer to, which may outlive the queues.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Error> failure;
  };
  class Done : public Signal {
  public:
    Done(std::shared_ptr<Shared> shared, size_t queue)
        : shared(std::move(shared)), queue(queue) {}
    bool isOver() const override {
      std::lock_guard lock(shared->mutex);
      return isDone;
    }
    Result<void> wait() const override {
      std::unique_lock lock(shared->mutex);
      shared->changed.wait(lock, [&] { return isDone; });
      return shared->failure ? *shared->failure : Result<void>();
    }
    int64_t time() const override { return ended; }

  private:
    friend WorkQueues;
    std::shared_ptr<Shared> shared;
    size_t queue;
    bool isDone = false;
    int64_t ended = 0;
  };
  struct Task {
    std::vector<Event> after;
    Body body;
    std::shared_ptr<Done> signal;
    std::chrono::microseconds delay;
  };
  struct Line {
    std::thread worker;
    std::deque<Task> tasks;
  };

  static const Done *doneOf(const Event &event) {
    return dynamic_cast<const Done *>(event.getSignal().get());
  }
  static bool crosses(const std::vector<Event> &events, size_t queue) {
    return std::any_of(events.begin(), events.end(), [&](const Event &event) {
      const Done *done = doneOf(event);
      return done && done->queue != queue;
    });
  }
  /// Lets the task without events go first, if it can.
  void holdBack(const Done &task, std::unique_lock<std::mutex> &lock) {
    if (std::find(heldBack.begin(), heldBack.end(), &task) == heldBack.end())
      return;
    constexpr auto longest = std::chrono::milliseconds(30);
    shared->changed.wait_for(lock, longest, [&] { return leftOut->isDone; });
    (leftOut->isDone ? isEarly : isLate) = true;
    if (!leftOut->isDone)
      return;
    // What follows it in its queue goes first too.
    shared->changed.wait_for(lock, longest, [] { return false; });
  }

  void work(size_t queue) {
    Line &line = lines[queue];
    std::unique_lock lock(shared->mutex);
    while (true) {
      shared->changed.wait(lock, [&] { return ends || !line.tasks.empty(); });
      if (line.tasks.empty())
        return;
      Task task = std::move(line.tasks.front());
      line.tasks.pop_front();
      lock.unlock();
      Result<void> done;
      for (const Event &event : task.after)
        if (Result<void> over = event.wait(); !over && done)
          done = over;
      std::this_thread::sleep_for(task.delay);
      lock.lock();
      holdBack(*task.signal, lock);
      lock.unlock();
      if (done)
        done = task.body();
      lock.lock();
      if (!done && !shared->failure)
        shared->failure = done.error();
      task.signal->ended = eventClock();
      task.signal->isDone = true;
      --(queue == markQueue ? marks : unfinished);
      shared->changed.notify_all();
    }
  }

  QueueOptions options;
  std::mt19937_64 draws;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::vector<Line> lines;
  /// By the first of its addresses.
  std::map<uint64_t, std::shared_ptr<const DeviceMemory>> held;
  uint64_t regions = 0;
  uint64_t unfinished = 0, marks = 0, numbered = 0;
  std::shared_ptr<Done> leftOut;
  std::vector<const Done *> heldBack; // not done when `leftOut` was put
  bool ends = false, isEarly = false, isLate = false;
};

inline std::shared_ptr<WorkQueues> makeQueues(uint64_t seed,
                                              std::chrono::microseconds longest,
                                              uint64_t leavesOut) {
  return std::make_shared<WorkQueues>(QueueOptions{
      seed, std::vector<std::chrono::microseconds>(markQueue + 1, longest),
      leavesOut});
}

} // namespace polyrank::runtime::test
