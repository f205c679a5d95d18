// Messages of other machines, which are written into this one's control page
// as if the sender stood in it.

#include "runtime/comm/net/FloatMode.h"
#include "runtime/comm/net/NetCommunicator.h"

#include "runtime/plan/Channels.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// Reads a message of a fixed size.
template <typename T>
bool read(const std::vector<std::byte> &body, T &message) {
  if (body.size() != sizeof(T))
    return false;
  std::memcpy(&message, body.data(), sizeof(T));
  return true;
}

} // namespace

Error NetCommunicator::wrong(int peer, const Frame &frame,
                             const std::string &what) const {
  return Error{"rank " + std::to_string(peer) + " sent a " + describe(frame) +
                   ", which " + what,
               Error::Fault::Rank};
}

Result<std::byte *> NetCommunicator::placeOf(int peer, const Frame &frame) {
  switch (frame.kind) {
  case FrameKind::Value:
    return slotFor(peer, frame);
  case FrameKind::Copy:
  case FrameKind::Partial:
  case FrameKind::Result:
  case FrameKind::Border:
    return placeOfPiece(peer, frame);
  default:
    bodies[peer].resize(frame.bytes);
    return bodies[peer].data();
  }
}

Result<void> NetCommunicator::arrived(int peer, const Frame &frame) {
  FarRank &sender = farRanks[peer];
  if (frame.bytes == 0)
    bodies[peer].clear();
  const Bytes &body = bodies[peer];
  switch (frame.kind) {
  case FrameKind::Group:
    return addGroup(peer, frame, body);
  case FrameKind::Start:
    return addStart(peer, frame, body);
  case FrameKind::Channel:
    return addChannel(peer, frame, body);
  case FrameKind::Value:
    return {}; // until all of it was sent
  case FrameKind::Sent:
    return addValue(peer, frame, body);
  case FrameKind::Received:
    return freeSlot(peer, frame, body);
  case FrameKind::Wait: {
    FarWait wait;
    if (!read(body, wait) || wait.blockers > FarWait::mostBlockers ||
        std::any_of(
            wait.ranks, wait.ranks + FarWait::mostBlockers,
            [&](int32_t rank) { return rank < 0 || rank >= worldSize(); }))
      return wrong(peer, frame, "is none");
    page.setWait(peer, wait);
    return {};
  }
  case FrameKind::Leave: {
    // Others may believe that it has left once all have answered: what it has
    // started must be known by then.
    if (auto applied = applyStarts(); !applied)
      return applied;
    sender.leaves = true;
    Frame answer;
    answer.kind = FrameKind::Bye;
    wire->send(peer, answer, {});
    return {};
  }
  case FrameKind::Address: // which a wire keeps to itself
    return wrong(peer, frame, "is not for this wire");
  case FrameKind::Bye:
    hasSaidBye[peer] = true;
    return {};
  case FrameKind::Abort:
    sender.leaves = true;
    job().fail({reinterpret_cast<const char *>(body.data()), body.size()});
    return {};
  case FrameKind::Copy:
  case FrameKind::Partial:
  case FrameKind::Result:
  case FrameKind::Border:
    addPiece(peer, frame);
    return {};
  }
  return wrong(peer, frame, "is of no kind");
}

void NetCommunicator::connected(int peer, uint32_t process) {
  farRanks[peer].process.store(process);
  farRanks[peer].presence.store(JobMember::Presence::Present);
  std::lock_guard lock(mutex);
  ++connectedPeers;
  changed.notify_all();
}

void NetCommunicator::gone(int peer, const std::string &why) {
  streams[peer].clear();
  FarRank &sender = farRanks[peer];
  sender.why = why == std::strerror(ECONNRESET) ? "" : why;
  // A rank closes its connections when all others have read that it leaves: its
  // starts have come, too, whichever rank of this machine got them.
  sender.presence.store(sender.leaves ? JobMember::Presence::Left
                                      : JobMember::Presence::Dead);
}

Result<void> NetCommunicator::addGroup(int peer, const Frame &frame,
                                       const Bytes &body) {
  size_t count = body.size() / sizeof(int32_t);
  LocalGroup group;
  group.me = -1;
  group.ranks.resize(count);
  if (count == 0 || body.size() % sizeof(int32_t) != 0 ||
      count > size_t(worldSize()))
    return wrong(peer, frame, "has no ranks");
  std::memcpy(group.ranks.data(), body.data(), body.size());
  for (size_t m = 0; m < count; ++m) {
    if (group.ranks[m] < 0 || group.ranks[m] >= worldSize())
      return wrong(peer, frame, "has a rank " + std::to_string(group.ranks[m]));
    if (isNear(group.ranks[m]))
      group.near.push_back(static_cast<int>(m));
    if (group.ranks[m] == self)
      group.me = static_cast<int>(m);
  }
  if (group.me < 0)
    return wrong(peer, frame, "is not for rank " + std::to_string(self));
  POLYRANK_ASSIGN(entry, findEntry(group.ranks));
  group.entry = entry;
  if (control.group(entry).key != frame.group)
    return wrong(peer, frame, "has another key than its ranks");
  auto [found, isNew] = foreign.emplace(frame.group, std::move(group));
  if (!isNew && found->second.entry != entry)
    return wrong(peer, frame, "has the key of another group");
  return {};
}

Result<void> NetCommunicator::addStart(int peer, const Frame &frame,
                                       const Bytes &body) {
  PendingStart start{nullptr, frame.operation, {}, {}};
  auto found = foreign.find(frame.group);
  if (body.size() < sizeof(StartMessage) || found == foreign.end())
    return wrong(peer, frame, "is of no group");
  std::memcpy(&start.message, body.data(), sizeof(StartMessage));
  start.carried.assign(body.begin() + sizeof(StartMessage), body.end());
  start.group = &found->second;
  if (start.message.member >= start.group->ranks.size() ||
      start.group->ranks[start.message.member] != peer)
    return wrong(peer, frame, "is of no member of the group");
  uint64_t carried = start.carried.size();
  if (carried != start.message.record.carried ||
      carried * start.group->ranks.size() > uint64_t(shm::smallBytes))
    return wrong(peer, frame,
                 "carries " + std::to_string(carried) + " bytes, says " +
                     std::to_string(start.message.record.carried) +
                     ", and may carry " +
                     std::to_string(uint64_t(shm::smallBytes) /
                                    start.group->ranks.size()));
  pending.push_back(std::move(start));
  return {};
}

/// Writes starts into the control page, as soon as their slot is free.
Result<void> NetCommunicator::applyStarts() {
  if (pending.empty())
    return {};
  std::deque<PendingStart> later;
  for (PendingStart &start : std::exchange(pending, {})) {
    const StartMessage &message = start.message;
    Operation operation;
    operation.group = start.group;
    operation.number = start.operation;
    operation.linkTime = message.linkTime;
    shm::OperationSlot &slot = slotOf(operation);
    if (slot.turn.load() != operation.turn()) {
      page.near(self).hasPending.store(1);
      if (slot.turn.load() != operation.turn()) {
        later.push_back(std::move(start));
        continue;
      } // else its turn has come just now, and nobody has rung
    }
    int member = static_cast<int>(message.member);
    shm::MemberOperation &theirs = memberOf(operation, member);
    theirs.record = message.record;
    theirs.exchanged = message.exchanged;
    std::copy(start.carried.begin(), start.carried.end(),
              carriedBy(operation, member));
    theirs.arrival.store(operation.turn() + 1, std::memory_order_release);
    uint64_t before = slot.progress.fetch_add(shm::OperationSlot::oneStart,
                                              std::memory_order_acq_rel);
    if (before / shm::OperationSlot::oneStart + 1 != start.group->ranks.size())
      continue;
    if (auto done = completeFarStart(operation, member); !done)
      return done;
  }
  pending = std::move(later);
  page.near(self).hasPending.store(!pending.empty());
  return {};
}

/// Called when the member has started the operation as the last one.
Result<void> NetCommunicator::completeFarStart(const Operation &operation,
                                               int member) {
  takePosted(); // what this rank has started may not have been taken yet
  int starter = operation.group->ranks[member];
  uint64_t key = control.group(operation.group->entry).key;
  std::shared_ptr<WireTask> task = taskOf(key, operation.number);
  if (!task) // the job is over, or it is an exchange
    return hasToldAbort ? Result<void>() : completeStart(operation, starter);
  FloatMode mode(task->floatMode);
  return completeStart(*task, starter);
}

Result<void> NetCommunicator::addChannel(int peer, const Frame &frame,
                                         const Bytes &body) {
  ChannelMessage message;
  std::span<std::byte> slots = control.slots(peer);
  if (!read(body, message) || message.slots < 1 ||
      message.slots > shm::mostSlots ||
      message.firstRecord > shm::mostSlots - message.slots ||
      message.offset > slots.size())
    return wrong(peer, frame, "is none");
  POLYRANK_ASSIGN(number, findChannel(peer, self, frame.group));
  shm::ChannelHeader &header = control.channels(peer)[number];
  header.bytes = message.bytes;
  header.offset = message.offset;
  header.slots = message.slots;
  header.firstRecord = message.firstRecord;
  channelNumbers[{peer, frame.group}] = number;
  return {};
}

Result<std::byte *> NetCommunicator::slotFor(int peer, const Frame &frame) {
  auto found = channelNumbers.find({peer, frame.group});
  if (found == channelNumbers.end())
    return wrong(peer, frame, "is of no channel");
  shm::ChannelHeader &header = control.channels(peer)[found->second];
  uint64_t from = frame.piece * valuePiece;
  uint64_t slot = header.offset +
                  frame.operation % header.slots * slotBytesOf(header.bytes);
  std::span<std::byte> memory = control.slots(peer);
  if (frame.operation != header.sent.load() ||
      frame.operation - header.received.load() >= header.slots)
    return wrong(peer, frame,
                 "comes before its slot is free: value " +
                     std::to_string(header.sent.load()) + " is the next, and " +
                     std::to_string(header.received.load()) + " were received");
  if (from > header.bytes || frame.bytes > header.bytes - from ||
      slot > memory.size() || from + frame.bytes > memory.size() - slot)
    return wrong(peer, frame,
                 "goes beyond the " + std::to_string(header.bytes) +
                     " bytes of a value");
  return memory.data() + slot + from;
}

/// All of a value is there.
Result<void> NetCommunicator::addValue(int peer, const Frame &frame,
                                       const Bytes &body) {
  shm::TransferRecord record;
  auto found = channelNumbers.find({peer, frame.group});
  if (!read(body, record) || found == channelNumbers.end())
    return wrong(peer, frame, "is of no channel");
  shm::ChannelHeader &header = control.channels(peer)[found->second];
  if (frame.operation != header.sent.load() ||
      frame.operation - header.received.load() >= header.slots)
    return wrong(peer, frame, "comes before its slot is free");
  shm::TransferRecord &times = control.records(
      peer)[header.firstRecord + frame.operation % header.slots];
  int64_t now = monotonicNanoseconds();
  bool isGiven = frame.stage != 0;
  times.sentAt = isGiven ? record.sentAt : now;
  // An emulated link holds a value back, on this machine's clock.
  times.arrivesAt =
      isGiven ? record.arrivesAt : now + (record.arrivesAt - record.sentAt);
  header.sent.store(frame.operation + 1);
  ringChannel(header);
  return {};
}

/// The receiver has taken a value of this rank.
Result<void> NetCommunicator::freeSlot(int peer, const Frame &frame,
                                       const Bytes &body) {
  shm::TransferRecord record;
  auto found = outgoing.find({peer, frame.group});
  if (!read(body, record) || found == outgoing.end())
    return wrong(peer, frame, "is of no channel");
  shm::ChannelHeader &header = *found->second;
  if (frame.operation != header.received.load() ||
      frame.operation >= header.sent.load())
    return wrong(peer, frame, "was not sent");
  control.records(self)[header.firstRecord + frame.operation % header.slots]
      .freedAt = frame.stage != 0 ? record.freedAt : monotonicNanoseconds();
  header.received.store(frame.operation + 1);
  ringChannel(header);
  return {};
}

void NetCommunicator::ringChannel(shm::ChannelHeader &header) const {
  header.bell.fetch_add(1);
  if (header.sleepers.load() > 0)
    wakeAll(header.bell);
}

} // namespace polyrank::runtime::net
