// How a rank waits for its group, and finds out that the wait will never end.

#include "runtime/comm/shm/ShmTransport.h"

namespace polyrank::runtime::shm {
namespace {

void pauseProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace

Result<void> ShmTransport::arrive(LocalGroup &group) {
  GroupHeader &entry = control.group(group.entry);
  uint32_t generation = entry.generation.load(std::memory_order_acquire);
  control.member(group.entry, group.me)
      .arrival.store(generation + 1, std::memory_order_release);
  if (entry.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      entry.size) {
    entry.arrivals.store(0, std::memory_order_relaxed);
    entry.generation.fetch_add(1);
    if (entry.sleepers.load() > 0)
      wakeAll(entry.generation);
    return {};
  }
  int64_t start = monotonicNanoseconds();
  Result<void> result = awaitGeneration(group, generation);
  waited += monotonicNanoseconds() - start;
  return result;
}

Result<void> ShmTransport::awaitGeneration(LocalGroup &group,
                                           uint32_t generation) {
  GroupHeader &entry = control.group(group.entry);
  auto isOver = [&] {
    return entry.generation.load(std::memory_order_acquire) != generation;
  };
  if (int64_t limit = control.header().spinNanoseconds) {
    int64_t start = monotonicNanoseconds();
    do {
      for (int n = 0; n < 32; ++n) {
        if (isOver())
          return {};
        pauseProcessor();
      }
    } while (monotonicNanoseconds() - start < limit);
  }

  RankState &state = control.rank(self);
  state.waits.fetch_add(1);
  state.waitingGroup.store(group.entry + 1);
  entry.sleepers.fetch_add(1);
  Result<void> result;
  std::vector<std::pair<int, uint32_t>> circle;
  while (!isOver()) {
    if (result = control.health(); !result)
      break;
    int64_t before = monotonicNanoseconds();
    sleepWhile(entry.generation, generation);
    // A wake, or a signal: look at the peers only once in a while.
    if (isOver() || monotonicNanoseconds() - before < 90'000'000)
      continue;
    if (result = checkPeers(group, generation); !result)
      break;
    // Nobody in the circle moved for 100 ms, so each was waiting for the next
    // at one and the same time: none of them will ever arrive.
    auto found = findCircle();
    if (!found.empty() && found == circle) {
      std::string message = "ranks wait for each other:";
      for (auto &[rank, waits] : found)
        message += "\n  " + describeWait(rank);
      result = failed(message);
      break;
    }
    circle = std::move(found);
  }
  entry.sleepers.fetch_sub(1);
  state.waitingGroup.store(0);
  state.waits.fetch_add(1);
  return result;
}

Result<void> ShmTransport::checkPeers(LocalGroup &group, uint32_t generation) {
  if (!isAlive(control.header().launcher))
    return failed("the launcher (process " +
                  std::to_string(control.header().launcher.pid) +
                  ") ended before its ranks");
  for (size_t m = 0; m < group.ranks.size(); ++m) {
    GroupMember &member = control.member(group.entry, m);
    if (member.arrival.load(std::memory_order_acquire) == generation + 1)
      continue;
    RankState &peer = control.rank(member.rank);
    RankPhase phase = peer.phase.load(std::memory_order_acquire);
    if (phase == RankPhase::Starting || // the launcher watches these
        phase == RankPhase::Attaching ||
        (phase == RankPhase::Running && isAlive(peer.process)))
      continue;
    // It may have arrived between the two looks, and left in good order.
    if (control.group(group.entry).generation.load() != generation ||
        member.arrival.load() == generation + 1)
      return {};
    return failed("rank " + std::to_string(member.rank) + " (process " +
                  std::to_string(peer.process.pid) + ") " +
                  (phase == RankPhase::Left ? "left the job early" : "died") +
                  "; " + describeWait(self));
  }
  return {};
}

std::string ShmTransport::describeWait(int rank) const {
  const RankState &state = control.rank(rank);
  uint32_t waiting = state.waitingGroup.load();
  if (waiting == 0)
    return "rank " + std::to_string(rank) + " does not wait";
  std::string text = "rank " + std::to_string(rank) + " waits at value " +
                     std::to_string(state.operation.load()) + " (step " +
                     std::to_string(state.step.load()) + ", command " +
                     std::to_string(state.command.load()) +
                     ") in the group of ranks ";
  for (uint32_t m = 0; m < control.group(waiting - 1).size; ++m)
    text += (m == 0 ? "" : ", ") +
            std::to_string(control.member(waiting - 1, m).rank);
  return text;
}

std::vector<std::pair<int, uint32_t>> ShmTransport::findCircle() const {
  std::vector<std::pair<int, uint32_t>> path{
      {self, control.rank(self).waits.load()}};
  std::vector<bool> visited(worldSize());
  if (!extendCircle(path, visited))
    return {};
  for (auto &[rank, waits] : path) // did all of it belong to the same waits?
    if (control.rank(rank).waits.load() != waits)
      return {};
  return path;
}

/// Extends a path of ranks, each of which waits for the next, until one waits
/// for the first.
bool ShmTransport::extendCircle(std::vector<std::pair<int, uint32_t>> &path,
                                std::vector<bool> &visited) const {
  visited[path.back().first] = true;
  uint32_t waiting = control.rank(path.back().first).waitingGroup.load();
  if (waiting == 0)
    return false;
  const GroupHeader &entry = control.group(waiting - 1);
  uint32_t generation = entry.generation.load();
  for (uint32_t m = 0; m < entry.size; ++m) {
    const GroupMember &member = control.member(waiting - 1, m);
    if (member.arrival.load() == generation + 1)
      continue;
    if (member.rank == path.front().first)
      return true;
    if (visited[member.rank])
      continue;
    path.push_back({member.rank, control.rank(member.rank).waits.load()});
    if (extendCircle(path, visited))
      return true;
    path.pop_back();
  }
  return false;
}

} // namespace polyrank::runtime::shm
