// What a rank tells the ranks of other machines: its groups, what it starts,
// its channels, and what it waits for.

#include "runtime/comm/net/FloatMode.h"
#include "runtime/comm/net/NetCommunicator.h"

#include "runtime/plan/Channels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace polyrank::runtime::net {
namespace {

/// A value of so many bytes is sent by the rank's own thread, which takes less
/// time than to wake the wire thread.
constexpr uint64_t smallValue = 1 << 16;

/// The bytes of `first`, and then room for more.
template <typename T>
std::shared_ptr<std::vector<std::byte>> bytesOf(const T *first, size_t size,
                                                size_t more = 0) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size + more);
  std::memcpy(bytes->data(), first, size);
  return bytes;
}

} // namespace

void NetCommunicator::hasCreated(const LocalGroup &group) {
  post([this, &group] {
    Frame frame;
    frame.kind = FrameKind::Group;
    frame.group = control.group(group.entry).key;
    auto body =
        bytesOf(group.ranks.data(), group.ranks.size() * sizeof(int32_t));
    sendToMachines(&group, frame, {*body, body});
  });
}

void NetCommunicator::hasStarted(const Operation &operation,
                                 const shm::OperationRecord &record) {
  uint64_t key = control.group(operation.group->entry).key;
  std::shared_ptr<WireTask> task;
  if (!operation.isExchange) {
    task = std::make_shared<WireTask>(operation);
    task->key = key;
    task->floatMode = FloatMode::current();
  }
  StartMessage message{};
  message.record = record;
  message.exchanged = operation.exchanged;
  message.linkTime = operation.linkTime;
  message.member = static_cast<uint32_t>(operation.group->me);
  auto body = bytesOf(&message, sizeof(message), record.carried);
  if (record.carried) {
    Places mine = placesOf(operation, operation.group->me);
    for (size_t t = 0; t < operation.carriedAt.size(); ++t) {
      uint64_t at = operation.carriedAt[t].input,
               end = t + 1 < operation.carriedAt.size()
                         ? operation.carriedAt[t + 1].input
                         : record.carried;
      std::memcpy(body->data() + sizeof(message) + at, mine.input(t), end - at);
    }
  }
  Frame frame;
  frame.kind = FrameKind::Start;
  frame.group = key;
  frame.operation = operation.number;
  post([this, task, body, frame, group = operation.group] {
    if (task) {
      if (!task->isSmall)
        plan(*task);
      tasks.push_back(task);
    }
    sendToMachines(group, frame, {*body, body});
  });
}

std::byte *NetCommunicator::carriedBy(const Task &operation, int member) const {
  uint64_t each = memberOf(operation, member).record.carried;
  return page.carried(operation.group->entry, operation.slot()).data() +
         static_cast<uint64_t>(member) * each;
}

void NetCommunicator::hasOpened(const OpenChannel &channel) {
  if (isNear(channel.peer) || !channel.sends)
    return;
  Frame frame;
  frame.kind = FrameKind::Channel;
  frame.group = channel.id;
  shm::ChannelHeader *header = channel.header;
  ChannelMessage message{header->bytes, header->offset, header->slots,
                         header->firstRecord};
  post([this, frame, message, header, peer = channel.peer] {
    outgoing[{peer, frame.group}] = header;
    sendBytes(peer, frame, &message, sizeof(message));
  });
}

void NetCommunicator::hasMoved(const OpenChannel &channel, uint64_t bytes,
                               bool isGiven) {
  if (isNear(channel.peer))
    return;
  const shm::ChannelHeader &header = *channel.header;
  uint64_t number = channel.count - 1;
  const shm::TransferRecord record = control.records(
      channel.sender)[header.firstRecord + number % channel.slots];
  Frame frame;
  frame.kind = channel.sends ? FrameKind::Sent : FrameKind::Received;
  frame.group = channel.id;
  frame.operation = number;
  frame.stage = isGiven;
  int peer = channel.peer;
  if (!channel.sends) {
    post([this, peer, frame, record] {
      sendBytes(peer, frame, &record, sizeof(record));
    });
    return;
  }
  const std::byte *slot = control.slots(self).data() + header.offset +
                          number % channel.slots * slotBytesOf(channel.bytes);
  auto count = static_cast<uint32_t>((bytes + valuePiece - 1) / valuePiece);
  post([this, peer, frame, record, slot, bytes, count] {
    Stream stream;
    stream.pieces = count + 1;
    stream.send = [=, this](uint32_t piece) {
      if (piece == count)
        return sendBytes(peer, frame, &record, sizeof(record));
      Frame part = frame;
      part.kind = FrameKind::Value;
      part.piece = piece;
      uint64_t from = piece * valuePiece;
      wire->send(peer, part,
                 {{slot + from, std::min(valuePiece, bytes - from)}, {}, {}});
    };
    if (bytes > smallValue || !streams[peer].empty()) {
      streams[peer].push_back(std::move(stream));
      return;
    }
    for (; stream.next < stream.pieces; ++stream.next)
      stream.send(stream.next);
  });
}

void NetCommunicator::stillWaits(uint64_t word) {
  if (word == 0 && !std::exchange(hasTold, false))
    return;
  FarWait wait;
  wait.word = word;
  if (word != 0) {
    hasTold = true;
    wait.beat = ++beats;
    for (int rank : findBlockers(self, word))
      if (wait.blockers < FarWait::mostBlockers)
        wait.ranks[wait.blockers++] = rank;
    std::strncpy(wait.text, describeWait(self).c_str(), sizeof(wait.text) - 1);
  }
  Frame frame;
  frame.kind = FrameKind::Wait;
  post([this, frame, wait] {
    auto body = bytesOf(&wait, sizeof(wait));
    sendToMachines(nullptr, frame, {*body, body});
  });
}

/// The rank of a machine that gets this rank's messages to it: a member of the
/// group, which cannot leave before the group's operations are over, or else
/// one that has not left.
int NetCommunicator::partnerOn(int machine, const LocalGroup *group) const {
  std::vector<int> ranks;
  for (int rank : far)
    if (machines.machineOf(rank) == machine &&
        (group
             ? std::count(group->ranks.begin(), group->ranks.end(), rank) > 0
             : farRanks[rank].presence.load() == JobMember::Presence::Present))
      ranks.push_back(rank);
  return ranks.empty() ? -1 : ranks[(self - firstNear) % ranks.size()];
}

void NetCommunicator::sendBytes(int peer, const Frame &frame, const void *data,
                                size_t size) {
  auto bytes = bytesOf(static_cast<const std::byte *>(data), size);
  wire->send(peer, frame, {*bytes, bytes, {}});
}

/// Sends to each other machine that has members of the group, or to all.
void NetCommunicator::sendToMachines(const LocalGroup *group,
                                     const Frame &frame, const Piece &body) {
  std::vector<bool> isMeant(machines.ranks.size(), group == nullptr);
  if (group)
    for (int32_t rank : group->ranks)
      isMeant[machines.machineOf(rank)] = true;
  isMeant[machines.machine] = false;
  for (size_t machine = 0; machine < isMeant.size(); ++machine)
    if (int partner = partnerOn(int(machine), group);
        isMeant[machine] && partner >= 0)
      wire->send(partner, frame, {body.bytes, body.owner, {}});
}

} // namespace polyrank::runtime::net
