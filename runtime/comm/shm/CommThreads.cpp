// Communication threads: they work on the operations that their rank has
// started, while it computes.
//
// They claim pieces like a waiting rank (Work.cpp), each without a team. The
// rank keeps a list of its operations in flight for them; the rank that starts
// an operation last rings the bell of each member that has communication
// threads.

#include "runtime/comm/shm/ShmCommunicator.h"

#include <algorithm>
#include <csignal>

namespace polyrank::runtime::shm {

void ShmCommunicator::setCommThreads(int count) {
  stopCommThreads();
  if (count <= 0)
    return;
  control.rank(self).helpers.store(static_cast<uint32_t>(count));
  // The communication threads block signals, which are for the rank's own
  // thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int n = 0; n < count; ++n)
    commThreads.emplace_back([this] { help(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ShmCommunicator::stopCommThreads() {
  if (commThreads.empty())
    return;
  RankState &state = control.rank(self);
  commThreadsEnd = true;
  state.bell.fetch_add(1);
  wakeAll(state.bell);
  for (std::thread &thread : commThreads)
    thread.join();
  commThreads.clear();
  commThreadsEnd = false;
  state.helpers.store(0);
  shared.clear();
}

ShmCommunicator::OwnedTask::OwnedTask(const Operation &operation)
    : Task(operation), transfers(operation.collective.transfers.begin(),
                                 operation.collective.transfers.end()),
      permutation(operation.collective.permutation.begin(),
                  operation.collective.permutation.end()) {
  collective.transfers = transfers;
  collective.permutation = permutation;
}

/// Called before any rank can begin to work on the operation.
void ShmCommunicator::share(const Operation &operation) {
  if (commThreads.empty())
    return;
  auto task = std::make_shared<SharedTask>(operation);
  std::lock_guard lock(sharedMutex);
  shared.push_back(std::move(task));
}

void ShmCommunicator::unshare(const Operation &operation) {
  if (commThreads.empty())
    return;
  std::lock_guard lock(sharedMutex);
  std::erase_if(shared, [&](const auto &task) {
    return task->group == operation.group && task->number == operation.number;
  });
}

/// Called after the operation's turn has come.
void ShmCommunicator::ring(const LocalGroup &group) const {
  for (int32_t rank : group.ranks) {
    RankState &state = control.rank(rank);
    if (state.helpers.load(std::memory_order_relaxed) == 0)
      continue;
    state.bell.fetch_add(1);
    if (state.listeners.load() > 0)
      wakeAll(state.bell);
  }
}

/// The main function of a communication thread, until it is told to end.
void ShmCommunicator::help() {
  const RankState &state = control.rank(self);
  std::vector<std::shared_ptr<const SharedTask>> tasks;
  while (true) {
    uint32_t bell = state.bell.load(); // a ring from here on is not lost
    if (commThreadsEnd)
      return;
    {
      std::lock_guard lock(sharedMutex);
      tasks = shared;
    }
    bool hasWorked = false;
    for (const auto &task : tasks)
      if (slotOf(*task).turn.load(std::memory_order_acquire) ==
          task->turn() + 1)
        hasWorked |= work(*task, task->own, {});
    tasks.clear();
    if (!hasWorked)
      awaitBell(bell);
  }
}

/// Waits until the bell differs from `bell`, or some time has passed.
void ShmCommunicator::awaitBell(uint32_t bell) const {
  RankState &state = control.rank(self);
  if (spinUntil(monotonicNanoseconds(), spinNanoseconds,
                [&] { return state.bell.load() != bell; }))
    return;
  state.listeners.fetch_add(1);
  if (state.bell.load() == bell)
    sleepWhile(state.bell, bell);
  state.listeners.fetch_sub(1);
}

} // namespace polyrank::runtime::shm
