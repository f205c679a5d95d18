// Sends and receives through slots in the control memory, which all ranks map.
//
// Only the sender changes the count of sent values, and only the receiver that
// of received values. A rank that waits sleeps on the channel's bell, which the
// other one rings.

#include "runtime/plan/Channels.h"
#include "runtime/comm/shm/ShmCommunicator.h"
#include "runtime/device/DeviceAccess.h"
#include "support/Failpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace polyrank::runtime::shm {

/// For fewer bytes, waking the team costs more than it saves.
static constexpr uint64_t bytesWorthThreads = 1 << 20;

Result<ChannelEnd> ShmCommunicator::openChannel(const Channel &channel) {
  auto wrong = [&](const std::string &what) {
    return Error{"rank " + std::to_string(self) + ": the channel of value " +
                     std::to_string(channel.id) + " " + what,
                 Error::Fault::Rank};
  };
  if (channel.group.index >= groups.size())
    return wrong("is of no group");
  LocalGroup &group = groups[channel.group.index];
  auto me = static_cast<uint32_t>(group.me);
  if (channel.from >= group.ranks.size() || channel.to >= group.ranks.size() ||
      channel.from == channel.to || (me != channel.from && me != channel.to))
    return wrong("goes from member " + std::to_string(channel.from) + " to " +
                 std::to_string(channel.to) + " of " +
                 std::to_string(group.ranks.size()) + ", and this is member " +
                 std::to_string(me));
  if (channel.slots < 1)
    return wrong("has no slots");
  OpenChannel opened;
  opened.group = &group;
  opened.to = channel.to;
  opened.sends = me == channel.from;
  opened.sender = group.ranks[channel.from];
  opened.peer = group.ranks[opened.sends ? channel.to : channel.from];
  opened.slots = channel.slots;
  opened.id = channel.id;
  opened.bytes = channel.bytes;
  POLYRANK_ASSIGN(
      number, findChannel(opened.sender, group.ranks[channel.to], channel.id));
  opened.number = number;
  opened.header = &control.channels(opened.sender)[number];
  for (size_t c = 0; c < channels.size(); ++c)
    if (channels[c].header == opened.header)
      return ChannelEnd{static_cast<uint32_t>(c)};
  if (opened.sends)
    if (auto taken = takeSlots(opened, channel.hasValues); !taken)
      return wrong(taken.error().message);
  channels.push_back(opened);
  hasOpened(channels.back());
  return ChannelEnd{static_cast<uint32_t>(channels.size() - 1)};
}

/// Finds the entry of a channel in the control page, or claims a free one for
/// it.
Result<uint32_t> ShmCommunicator::findChannel(int32_t sender, int32_t receiver,
                                              uint64_t id) {
  std::span<ChannelHeader> entries = control.channels(sender);
  uint64_t first = (id * 0x9e3779b97f4a7c15 >> 32) + uint64_t(receiver);
  for (uint64_t n = 0; n < entries.size(); ++n) {
    auto number = static_cast<uint32_t>((first + n) % entries.size());
    ChannelHeader &entry = entries[number];
    EntryState state = EntryState::Free;
    if (entry.state.compare_exchange_strong(state, EntryState::Claimed)) {
      entry.receiver = static_cast<uint32_t>(receiver);
      entry.id = id;
      entry.state.store(EntryState::Ready, std::memory_order_release);
      return number;
    }
    if (auto ready = awaitReady(entry.state); !ready)
      return ready.error();
    if (entry.receiver == uint32_t(receiver) && entry.id == id)
      return number;
  }
  return Error{"rank " + std::to_string(sender) + " sends through more than " +
                   std::to_string(mostChannels) + " channels",
               Error::Fault::Rank};
}

Result<void> ShmCommunicator::takeSlots(const OpenChannel &channel,
                                        bool hasValues) {
  std::span<std::byte> memory = control.slots(self);
  uint64_t room = memory.size() - usedSlotBytes,
           bytes = hasValues ? channel.bytes : 0;
  auto wrong = [&](const std::string &what) {
    return Error{what, Error::Fault::Rank};
  };
  if (channel.slots > mostSlots - usedRecords)
    return wrong("has " + std::to_string(channel.slots) +
                 " slots; with those of the others of this rank that is more "
                 "than " +
                 std::to_string(mostSlots));
  if (bytes > room || channelBytesOf(bytes, channel.slots) > room)
    return wrong("has " + std::to_string(channel.slots) + " slots for " +
                 std::to_string(channel.bytes) + " bytes, and of the " +
                 std::to_string(memory.size()) +
                 " bytes for what this rank sends " + std::to_string(room) +
                 " are left");
  auto taken =
      memory.subspan(usedSlotBytes, channelBytesOf(bytes, channel.slots));
  constexpr uintptr_t page = 4096;
  auto begin = reinterpret_cast<uintptr_t>(taken.data()) / page * page,
       end = reinterpret_cast<uintptr_t>(taken.data() + taken.size());
  if (!taken.empty() &&
      madvise(reinterpret_cast<void *>(begin), end - begin,
              MADV_POPULATE_WRITE) != 0 &&
      errno != EINVAL) // before Linux 5.14: pages are allocated on use
    return wrong("finds no memory for its " + std::to_string(taken.size()) +
                 " bytes: " + std::strerror(errno));
  ChannelHeader &header = *channel.header;
  header.slots = channel.slots;
  header.bytes = channel.bytes;
  header.firstRecord = usedRecords;
  header.offset = usedSlotBytes;
  usedRecords += channel.slots;
  usedSlotBytes += taken.size();
  return {};
}

TransferRecord &
ShmCommunicator::slotRecordOf(const OpenChannel &channel) const {
  return control.records(channel.sender)[channel.header->firstRecord +
                                         channel.count % channel.slots];
}

std::byte *ShmCommunicator::slotOf(const OpenChannel &channel) const {
  return control.slots(channel.sender).data() + channel.header->offset +
         channel.count % channel.slots * slotBytesOf(channel.bytes);
}

/// True if the peer's wait is for this channel, and not for another one between
/// the same ranks.
bool ShmCommunicator::isFor(const OpenChannel &channel, uint64_t word) const {
  ChannelWait wait = ChannelWait::of(word);
  return wait.peer == uint32_t(self) && wait.isForRoom != channel.sends &&
         control.rank(channel.peer).channel.load() == channel.number;
}

void ShmCommunicator::ring(const OpenChannel &channel) const {
  channel.header->bell.fetch_add(1);
  if (channel.header->sleepers.load() == 0)
    return;
  uint64_t word = control.rank(channel.peer).waiting.load();
  if (ChannelWait::isOne(word) && isFor(channel, word) &&
      channel.header->isOver(ChannelWait::of(word)))
    job().endWait(channel.peer, word);
  wakeAll(channel.header->bell);
}

void ShmCommunicator::copyValue(const std::byte *from, std::byte *to,
                                uint64_t bytes) const {
  if (bytes < bytesWorthThreads || !threads) {
    std::memcpy(to, from, bytes);
    return;
  }
  threads(static_cast<int64_t>(bytes), 4096, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

Result<int64_t> ShmCommunicator::awaitRoom(const OpenChannel &channel) {
  if (auto room = awaitPeer(channel); !room)
    return room.error();
  return channel.count < channel.slots ? 0 : slotRecordOf(channel).freedAt;
}

Result<Arrival> ShmCommunicator::send(ChannelEnd end, DeviceSpan value,
                                      Events after, const SendTimes &times) {
  if (Result<void> over = await(after); !over)
    return over.error();
  failpoint("send.before");
  int64_t begin = monotonicNanoseconds();
  waited = 0;
  OpenChannel &channel = channels[end.index];
  POLYRANK_ASSIGN(freed, awaitRoom(channel));
  if (value.size)
    copyValue(DeviceAccess::pointerTo(value.address), slotOf(channel),
              std::min(value.size, channel.bytes));
  TransferRecord &record = slotRecordOf(channel);
  if (times) {
    POLYRANK_ASSIGN(given, times(freed));
    record.sentAt = given.sent;
    record.arrivesAt = given.arrives;
  } else {
    int64_t time =
        wholeNanoseconds(channel.group->link.messageTime(channel.bytes));
    record.sentAt = record.arrivesAt = monotonicNanoseconds();
    if (time > 0) {
      int64_t &free = channel.group->linkFreeAt[channel.to];
      record.arrivesAt = free = std::max(free, record.sentAt) + time;
    }
  }
  Completion completion{begin, self, record.arrivesAt, self};
  if (freed > begin)
    completion.started = freed, completion.lastStarter = channel.peer;
  ++channel.count;
  channel.header->sent.store(channel.count);
  hasMoved(channel, std::min(value.size, channel.bytes),
           static_cast<bool>(times));
  ring(channel);
  CollectiveStatistics &counter = counters[transferStatistics];
  ++counter.calls;
  counter.bytes += channel.bytes;
  int64_t now = monotonicNanoseconds();
  counter.nanoseconds += now - begin;
  counter.waitingNanoseconds += waited;
  failpoint("send.after");
  return Arrival(Event::over(now), completion);
}

Result<TransferTimes> ShmCommunicator::awaitValue(const OpenChannel &channel) {
  if (auto there = awaitPeer(channel); !there)
    return there.error();
  const ChannelHeader &header = *channel.header;
  if (header.bytes != channel.bytes || header.slots != channel.slots)
    return failed(
        "ranks disagree on what moves: rank " + std::to_string(channel.sender) +
        " sends value " + std::to_string(header.id) + " of " +
        std::to_string(header.bytes) + " bytes through " +
        std::to_string(header.slots) + " slots, and rank " +
        std::to_string(self) + " receives value " + std::to_string(channel.id) +
        " of " + std::to_string(channel.bytes) + " bytes through " +
        std::to_string(channel.slots));
  const TransferRecord &record = slotRecordOf(channel);
  return TransferTimes{record.sentAt, record.arrivesAt};
}

Result<Arrival> ShmCommunicator::receive(ChannelEnd end, DeviceSpan into,
                                         Events after,
                                         const ReceiveTime &freed) {
  if (Result<void> over = await(after); !over)
    return over.error();
  failpoint("receive.before");
  int64_t begin = monotonicNanoseconds();
  waited = 0;
  OpenChannel &channel = channels[end.index];
  POLYRANK_ASSIGN(times, awaitValue(channel));
  std::optional<int64_t> given;
  if (freed) {
    POLYRANK_ASSIGN(time, freed(times));
    given = time;
  } else if (auto arrived = awaitLink(times.arrives); !arrived) {
    return arrived.error();
  }
  if (into.size)
    copyValue(slotOf(channel), DeviceAccess::pointerTo(into.address),
              std::min(into.size, channel.bytes));
  int64_t now = monotonicNanoseconds();
  slotRecordOf(channel).freedAt = given.value_or(now);
  ++channel.count;
  channel.header->received.store(channel.count);
  hasMoved(channel, 0, static_cast<bool>(freed));
  ring(channel);
  CollectiveStatistics &counter = counters[transferStatistics];
  ++counter.calls;
  counter.nanoseconds += now - begin;
  counter.waitingNanoseconds += waited;
  failpoint("receive.after");
  bool isLast = times.sent > begin;
  return Arrival(Event::over(now),
                 {isLast ? times.sent : begin, isLast ? channel.peer : self,
                  std::max(now, times.arrives), self});
}

/// Waits until the peer has sent this rank's next value, or has received one
/// and freed its slot.
Result<void> ShmCommunicator::awaitPeer(const OpenChannel &channel) {
  if (auto alive = job().health(); !alive)
    return alive;
  RankState &state = control.rank(self);
  job().setOperation(channel.id);
  ChannelHeader &header = *channel.header;
  // Only a sender's wait reads the header's `slots`, which the sender has
  // written itself.
  ChannelWait wait{channel.sends, uint32_t(channel.peer),
                   uint32_t(channel.count)};
  if (header.isOver(wait))
    return {};
  // Publishes the channel to which the word of the wait belongs.
  state.channel.store(channel.number);
  Result<bool> slept =
      await({wait.word(), header.bell, header.sleepers,
             [&] { return header.isOver(wait); },
             [&] { return checkPeer(channel); }, !isNear(channel.peer)});
  return slept ? Result<void>() : slept.error();
}

Result<void> ShmCommunicator::checkPeer(const OpenChannel &channel) {
  if (auto alive = job().checkLauncher(); !alive)
    return alive;
  JobMember::Presence presence = presenceOf(channel.peer);
  if (presence == JobMember::Presence::Expected ||
      presence == JobMember::Presence::Present)
    return {};
  // The peer may have done it between the two checks, and left normally.
  if (channel.header->isOver(
          {channel.sends, uint32_t(channel.peer), uint32_t(channel.count)}))
    return {};
  return failed(describeAbsence(channel.peer) + "; " + describeWait(self));
}

/// Returns true if another rank's channel wait is over.
bool ShmCommunicator::isOver(int rank, uint64_t word) {
  ChannelWait wait = ChannelWait::of(word);
  const RankState &state = control.rank(rank);
  uint32_t number = state.channel.load();
  int sender = wait.isForRoom ? rank : static_cast<int>(wait.peer);
  if (sender >= worldSize() || number >= mostChannels)
    return true;
  return control.channels(sender)[number].isOver(wait) ||
         state.waiting.load() != word;
}

} // namespace polyrank::runtime::shm
