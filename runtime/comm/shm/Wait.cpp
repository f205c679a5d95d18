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
  state.waiting.store(Wait{group.entry, generation}.word());
  entry.sleepers.fetch_add(1);
  Result<void> result;
  WaitPath circle;
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
    // All of these waits lasted from the first look to the second, so each was
    // waiting for the next at one and the same time: none will ever arrive.
    auto found = findCircle();
    if (!found.empty() && found == circle) {
      std::string message = "ranks wait for each other:";
      for (auto &[rank, wait] : found)
        message += "\n  " + describeWait(rank);
      result = failed(message);
      break;
    }
    circle = std::move(found);
  }
  entry.sleepers.fetch_sub(1);
  state.waiting.store(0);
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
  uint64_t waiting = state.waiting.load();
  if (waiting == 0)
    return "rank " + std::to_string(rank) + " does not wait";
  uint32_t group = Wait::of(waiting).group;
  std::string text = "rank " + std::to_string(rank) + " waits at value " +
                     std::to_string(state.operation.load()) + " (step " +
                     std::to_string(state.step.load()) + ", command " +
                     std::to_string(state.command.load()) +
                     ") in the group of ranks ";
  for (uint32_t m = 0; m < control.group(group).size; ++m)
    text += (m == 0 ? "" : ", ") +
            std::to_string(control.member(group, m).rank);
  return text;
}

ShmTransport::WaitPath ShmTransport::findCircle() const {
  WaitPath path{{self, control.rank(self).waiting.load()}};
  std::vector<bool> visited(worldSize());
  if (!extendCircle(path, visited))
    return {};
  return path;
}

/// Extends a path of ranks, each of which waits for the next, until one waits
/// for the first.
bool ShmTransport::extendCircle(WaitPath &path,
                                std::vector<bool> &visited) const {
  auto [rank, word] = path.back();
  visited[rank] = true;
  if (word == 0)
    return false;
  Wait wait = Wait::of(word);
  const GroupHeader &entry = control.group(wait.group);
  for (uint32_t m = 0; m < entry.size; ++m) {
    const GroupMember &member = control.member(wait.group, m);
    bool arrived = member.arrival.load() == wait.generation + 1;
    // The rank may not have woken up yet: then its wait leads nowhere, and what
    // its members have arrived for is something else.
    if (control.isOver(wait))
      return false;
    if (arrived)
      continue;
    if (member.rank == path.front().first)
      return true;
    if (visited[member.rank])
      continue;
    path.push_back({member.rank, control.rank(member.rank).waiting.load()});
    if (extendCircle(path, visited))
      return true;
    path.pop_back();
  }
  return false;
}

} // namespace polyrank::runtime::shm
