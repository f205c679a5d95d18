// The wire thread of a rank: its loop, and how others have it do something.

#include "runtime/comm/net/NetCommunicator.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// How long a rank that leaves waits for those that do not answer.
constexpr int64_t longestGoodbye = 2'000'000'000;

} // namespace

void NetCommunicator::post(std::function<void()> what) {
  {
    std::lock_guard lock(mutex);
    inbox.push_back(std::move(what));
  }
  ringWire(self);
}

void NetCommunicator::ringWire(int rank) const {
  NearRank &near = page.near(rank);
  near.bell.fetch_add(1);
  if (near.sleeps.load() == 0)
    return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written =
      write(bells[rank - firstNear].get(), &one, sizeof(one));
}

void NetCommunicator::hasTurned(const LocalGroup &group) const {
  for (int member : group.near)
    ringWire(group.ranks[member]);
  for (int rank = firstNear; rank < firstNear + countNear; ++rank)
    if (page.near(rank).hasPending.load() != 0)
      ringWire(rank);
}

/// Sends pieces where little waits to be sent.
void NetCommunicator::pump() {
  constexpr size_t enough = 4 << 20;
  for (int peer : far) {
    std::deque<Stream> &waiting = streams[peer];
    while (!waiting.empty() && wire->queued(peer) < enough) {
      Stream &stream = waiting.front();
      if (stream.next < stream.pieces)
        stream.send(stream.next++);
      if (stream.next == stream.pieces)
        waiting.pop_front();
    }
  }
}

/// Calls what other threads have posted.
void NetCommunicator::takePosted() {
  std::vector<std::function<void()>> posted;
  {
    std::lock_guard lock(mutex);
    posted.swap(inbox);
  }
  for (const std::function<void()> &each : posted)
    each();
}

Result<void> NetCommunicator::work() {
  takePosted();
  if (auto applied = applyStarts(); !applied)
    return applied;
  advance();
  pump();
  return {};
}

/// Tells all ranks that the job is over, and forgets what was under way.
void NetCommunicator::tellAbort() {
  Result<void> alive = job().health();
  if (alive || std::exchange(hasToldAbort, true))
    return;
  tasks.clear();
  pending.clear();
  for (auto &each : streams)
    each.clear();
  std::string text = alive.error().message.substr(0, mostFrameBytes);
  Frame frame;
  frame.kind = FrameKind::Abort;
  for (int peer : far)
    sendBytes(peer, frame, text.data(), text.size());
}

void NetCommunicator::leave() {
  if (std::exchange(hasSentLeave, true))
    return;
  Frame frame;
  frame.kind = FrameKind::Leave;
  for (int peer : far)
    if (!hasToldAbort)
      streams[peer].push_back({0, 1, [this, peer, frame](uint32_t) {
                                 wire->send(peer, frame, {});
                               }});
}

/// True once all peers have read what this rank sent them, or cannot.
bool NetCommunicator::hasLeft() const {
  return std::all_of(far.begin(), far.end(), [&](int peer) {
    JobMember::Presence presence = farRanks[peer].presence.load();
    bool isGone = presence == JobMember::Presence::Dead ||
                  presence == JobMember::Presence::Left;
    if (hasToldAbort)
      return isGone || wire->queued(peer) == 0;
    return isGone || hasSaidBye[peer];
  });
}

/// The main function of the wire thread.
void NetCommunicator::run() {
  NearRank &near = page.near(self);
  int64_t until = 0; // when this rank has left, whoever answers
  while (true) {
    uint32_t bell = near.bell.load(); // a ring from here on is not lost
    Result<void> done = work();
    if (ends) {
      if (until == 0)
        until = monotonicNanoseconds() + longestGoodbye;
      leave();
      pump();
      if (hasLeft() || monotonicNanoseconds() > until)
        return;
    }
    if (done) {
      near.sleeps.store(1);
      done = wire->progress(near.bell.load() == bell ? (ends ? 10 : 100) : 0);
      near.sleeps.store(0);
    }
    if (!done) {
      job().fail("rank " + std::to_string(self) + ": " + done.error().message);
      std::lock_guard lock(mutex);
      if (!failure)
        failure = job().health().error();
      changed.notify_all();
    }
    tellAbort();
  }
}

} // namespace polyrank::runtime::net
