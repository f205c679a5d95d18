// The wire thread of a rank: its loop, and how others have it do something.

#include "runtime/comm/net/NetCommunicator.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// How long a rank that leaves waits for those that do not answer.
constexpr int64_t longestGoodbye = 2'000'000'000;
/// No more is given to a connection while so many bytes wait to be sent.
constexpr size_t enough = 1 << 19;
/// How long a thread polls for the wire that another one has just now: it takes
/// longer to sleep and to be woken.
constexpr int64_t shortly = 15'000;

bool lockShortly(std::unique_lock<std::mutex> &lock) {
  return lock.try_lock() || spinUntil(monotonicNanoseconds(), shortly,
                                      [&] { return lock.try_lock(); });
}

} // namespace

void NetCommunicator::post(std::function<void()> what) {
  {
    std::lock_guard lock(mutex);
    inbox.push_back(std::move(what));
  }
  bool isTaken = tryWire([this] {
    takePosted();
    return wire->flush();
  });
  if (!isTaken)
    ringWire(self);
}

bool NetCommunicator::tryWire(const std::function<Result<void>()> &what) {
  std::unique_lock held(wireMutex, std::defer_lock);
  if (!lockShortly(held))
    return false;
  Result<void> done = what();
  bool mustGoOn = !done || hasMore();
  held.unlock();
  if (!done)
    failWire(done.error());
  if (mustGoOn)
    ringWire(self);
  return true;
}

void NetCommunicator::takeArrived() {
  tryWire([this]() -> Result<void> {
    if (Result<void> looked = wire->look(); !looked)
      return looked;
    return work();
  });
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

void NetCommunicator::hasBegun(const LocalGroup &group) const {
  for (int member : group.near)
    ringWire(group.ranks[member]);
}

void NetCommunicator::hasEnded(const LocalGroup &) const {
  for (int rank = firstNear; rank < firstNear + countNear; ++rank)
    if (page.near(rank).hasPending.load() != 0)
      ringWire(rank);
}

/// Sends pieces where little waits to be sent.
void NetCommunicator::pump() {
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
  return wire->flush();
}

/// True if there is something to do that nobody waits for.
bool NetCommunicator::hasMore() const {
  return std::any_of(far.begin(), far.end(),
                     [&](int peer) {
                       return !streams[peer].empty() &&
                              wire->queued(peer) < enough;
                     }) ||
         std::any_of(tasks.begin(), tasks.end(), [](const auto &task) {
           return task->hasSent && task->left == 0;
         });
}

void NetCommunicator::failWire(const Error &error) {
  job().fail("rank " + std::to_string(self) + ": " + error.message);
  std::lock_guard lock(mutex);
  if (!failure)
    failure = job().health().error();
  changed.notify_all();
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
    std::unique_lock held(wireMutex, std::defer_lock);
    if (!lockShortly(held))
      held.lock();
    bool isEnd = ends; // and all that the rank will ever post is there
    Result<void> done = wire->progress();
    tellAbort();
    if (done)
      done = work();
    if (isEnd) {
      if (until == 0)
        until = monotonicNanoseconds() + longestGoodbye;
      leave();
      pump();
      if (done)
        done = wire->flush();
    }
    if (isEnd && (hasLeft() || monotonicNanoseconds() > until))
      return;
    bool mustGoOn = !done || hasMore();
    held.unlock();
    if (!done)
      failWire(done.error());
    near.sleeps.store(1);
    mustGoOn |= near.bell.load() != bell;
    if (auto waited = wire->await(mustGoOn ? 0 : ends ? 10 : 100); !waited)
      failWire(waited.error());
    near.sleeps.store(0);
  }
}

} // namespace polyrank::runtime::net
