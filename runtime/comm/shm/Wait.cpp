// Waiting for other ranks, and the detection of waits that will never end.

#include "runtime/comm/shm/ShmCommunicator.h"
#include "support/Failpoint.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace polyrank::runtime::shm {
/// Works on what is left of the operation, and returns when it is done.
Result<void> ShmCommunicator::finish(Operation &operation) {
  if (operation.isDone)
    return {};
  failpoint("wait.before");
  OperationSlot &slot = slotOf(operation);
  auto turn = [&] { return slot.turn.load(std::memory_order_acquire); };
  job().setOperation(operation.collective.id);
  if (turn() == operation.turn())
    if (auto started = awaitTurn(operation, operation.turn()); !started)
      return started;
  failpoint("wait.before_work");
  if (turn() == operation.turn() + 1)
    work(operation, operation.own, threads);
  if (turn() == operation.turn() + 1)
    if (auto done = awaitTurn(operation, operation.turn() + 1); !done)
      return done;
  // These stay as they are until this rank starts the slot's next operation.
  if (slot.linkEndsAt)
    if (auto ended = awaitLink(slot.linkEndsAt); !ended)
      return ended;
  operation.completion = {slot.startedAt, slot.lastStarter,
                          std::max(slot.finishedAt, slot.linkEndsAt),
                          slot.lastFinisher};
  operation.isDone = true;
  failpoint("wait.after");
  unshare(operation);
  return {};
}

Result<void> ShmCommunicator::await(Events after) {
  for (const Event &event : after)
    if (Result<void> over = event.wait(); !over)
      return over;
  return {};
}

Result<bool> ShmCommunicator::await(const Awaited &awaited) {
  int64_t begin = monotonicNanoseconds();
  struct Stopwatch {
    int64_t begin;
    uint64_t &sum;
    ~Stopwatch() { sum += monotonicNanoseconds() - begin; }
  } stopwatch{begin, waited};
  if (spinUntil(begin, spinNanoseconds, awaited.isOver))
    return false;
  if (awaited.isFar) {
    takeArrived();
    if (awaited.isOver())
      return false;
  }

  std::atomic<uint64_t> &waiting = control.rank(self).waiting;
  awaited.sleepers.fetch_add(1);
  waiting.store(awaited.word);
  publishWait(awaited.word);
  Result<bool> result = true;
  WaitPath circle;
  while (true) {
    uint32_t bell = awaited.bell.load();
    if (awaited.isOver())
      break;
    if (auto alive = job().health(); !alive) {
      result = alive.error();
      break;
    }
    int64_t before = monotonicNanoseconds();
    sleepWhile(awaited.bell, bell);
    // After a wake or a signal the peers are not checked, but only once in a
    // while.
    if (awaited.isOver() || monotonicNanoseconds() - before < 90'000'000)
      continue;
    if (auto possible = awaited.checkPeers(); !possible) {
      result = possible.error();
      break;
    }
    publishWait(awaited.word); // others may be to blame now
    stillWaits(awaited.word);
    // All of these waits lasted from the first check to the second, so all were
    // in progress at the same time: none will ever end.
    auto found = findCircle();
    if (!found.empty() && found == circle && isCertain(found)) {
      std::string message = "ranks wait for each other:";
      for (auto &[rank, word] : found)
        message += "\n  " + describeWait(rank);
      result = failed(message);
      break;
    }
    circle = std::move(found);
  }
  awaited.sleepers.fetch_sub(1);
  waiting.store(0);
  job().endWait(self, awaited.word);
  stillWaits(0);
  return result;
}

/// Tells the job what this rank sleeps for.
void ShmCommunicator::publishWait(uint64_t word) const {
  if (ChannelWait::isOne(word)) {
    ChannelWait wait = ChannelWait::of(word);
    int peer = static_cast<int>(wait.peer);
    job().beginWait(
        word, wait.isForRoom ? RankWait::What::Room : RankWait::What::Value,
        {&peer, 1});
    return;
  }
  Wait wait = Wait::of(word);
  std::vector<int> blockers = control.blockersOf(wait);
  std::sort(blockers.begin(), blockers.end());
  job().beginWait(
      word, wait.isForStarts() ? RankWait::What::Starts : RankWait::What::Work,
      blockers);
}

/// Wakes the members that sleep until the operation goes on, and notes for each
/// that its wait is over. Called in any thread.
void ShmCommunicator::wake(const Task &operation) const {
  for (int32_t rank : operation.group->ranks) {
    uint64_t word = control.rank(rank).waiting.load();
    if (rank != self && word != 0 && !ChannelWait::isOne(word) &&
        control.isOver(Wait::of(word)))
      job().endWait(rank, word);
  }
  wakeAll(slotOf(operation).turn);
}

/// Waits until the operation's turn is no longer `turn`.
Result<void> ShmCommunicator::awaitTurn(const Operation &operation,
                                        uint32_t turn) {
  OperationSlot &slot = slotOf(operation);
  int64_t begin = monotonicNanoseconds();
  Result<bool> slept =
      await({Wait{operation.group->entry, operation.slot(), turn}.word(),
             slot.turn, slot.sleepers,
             [&] { return slot.turn.load(std::memory_order_acquire) != turn; },
             [&] { return checkPeers(operation, turn); },
             operation.group->crosses()});
  if (!slept)
    return slept.error();
  // `lastStarter` is valid until this rank starts the slot's next operation.
  if (*slept && turn == operation.turn())
    job().addAwaited(slot.lastStarter, monotonicNanoseconds() - begin);
  return {};
}

/// Sleeps until `end`. With a core of its own the rank polls the clock at the
/// end of the sleep; on a shared core, polling would take time slices from
/// others.
Result<void> ShmCommunicator::awaitLink(int64_t end) {
  constexpr int64_t moment = 60'000, longest = 100'000'000;
  int64_t begin = monotonicNanoseconds(), now = begin;
  for (; now < end; now = monotonicNanoseconds()) {
    job().beat(); // a slow link is progress, too
    if (auto alive = job().health(); !alive)
      return alive;
    int64_t watched = spinNanoseconds > 0 ? moment : 0;
    if (end - now <= watched)
      continue;
    int64_t until = std::min(end - watched, now + longest);
    timespec time{until / 1'000'000'000, until % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  }
  waited += now - begin;
  return {};
}

Result<void> ShmCommunicator::checkPeers(const Operation &operation,
                                         uint32_t turn) {
  if (auto alive = job().checkLauncher(); !alive)
    return alive;
  const LocalGroup &group = *operation.group;
  auto hasStarted = [&](int m) {
    return memberOf(operation, m).arrival.load(std::memory_order_acquire) ==
           operation.turn() + 1;
  };
  // The last member to start the operation still works before it lets the
  // others begin.
  bool isForStarts = false;
  if (turn == operation.turn())
    for (int m = 0; m < group.members(); ++m)
      isForStarts |= !hasStarted(m);
  for (int m = 0; m < group.members(); ++m) {
    if (isForStarts && hasStarted(m))
      continue;
    JobMember::Presence presence = presenceOf(group.ranks[m]);
    if (presence == JobMember::Presence::Expected ||
        presence == JobMember::Presence::Present)
      continue;
    // A rank that has left normally works on no piece.
    if (!isForStarts && presence == JobMember::Presence::Left)
      continue;
    // The peer may have started it between the two checks, and left normally.
    if (slotOf(operation).turn.load() != turn || (isForStarts && hasStarted(m)))
      return {};
    return failed(describeAbsence(group.ranks[m]) + "; " + describeWait(self));
  }
  return {};
}

std::string ShmCommunicator::describeWait(int rank) const {
  uint64_t waiting = control.rank(rank).waiting.load();
  RankReport report = job().report(rank);
  std::string text = "rank " + std::to_string(rank) + " waits at ",
              place = " (step " + std::to_string(report.step) + ", command " +
                      std::to_string(report.command) + ") ";
  if (waiting == 0)
    return job().waitOf(rank).what == RankWait::What::Barrier
               ? text + "a barrier" + place + "of all ranks"
               : "rank " + std::to_string(rank) + " does not wait";
  return text + "value " + std::to_string(report.operation) + place +
         describeAwaited(waiting);
}

std::string ShmCommunicator::describeAwaited(uint64_t waiting) const {
  if (ChannelWait::isOne(waiting)) {
    ChannelWait wait = ChannelWait::of(waiting);
    std::string peer = "rank " + std::to_string(wait.peer);
    return wait.isForRoom ? "until " + peer + " receives one before it"
                          : "for what " + peer + " sends";
  }
  std::string text = "in the group of ranks ";
  uint32_t group = Wait::of(waiting).group;
  for (uint32_t m = 0; m < control.group(group).size; ++m)
    text +=
        (m == 0 ? "" : ", ") + std::to_string(control.member(group, m).rank);
  return text;
}

ShmCommunicator::WaitPath ShmCommunicator::findCircle() {
  WaitPath path{{self, waitingOf(self)}};
  std::vector<bool> visited(worldSize());
  if (!extendCircle(path, visited))
    return {};
  return path;
}

/// The rank may not have woken up yet, although its wait is over: then it has
/// no blockers, whatever its peers do meanwhile.
std::vector<int> ShmCommunicator::findBlockers(int rank, uint64_t word) {
  std::vector<int> blockers;
  if (word == 0) {
    RankWait wait = job().waitOf(rank);
    return wait.what == RankWait::What::Barrier ? std::move(wait.ranks)
                                                : blockers;
  }
  if (ChannelWait::isOne(word)) {
    if (!isOver(rank, word))
      blockers.push_back(static_cast<int>(ChannelWait::of(word).peer));
    return blockers;
  }
  return control.blockersOf(Wait::of(word));
}

/// Extends a path of ranks, each of which waits for the next, until one waits
/// for the first.
bool ShmCommunicator::extendCircle(WaitPath &path, std::vector<bool> &visited) {
  auto [rank, word] = path.back();
  visited[rank] = true;
  for (int next : findBlockers(rank, word)) {
    if (next == path.front().first)
      return true;
    if (visited[next])
      continue;
    path.push_back({next, waitingOf(next)});
    if (extendCircle(path, visited))
      return true;
    path.pop_back();
  }
  return false;
}

} // namespace polyrank::runtime::shm
