// The layout of the control page.

#include "runtime/comm/shm/ControlPage.h"

#include <utility>

namespace polyrank::runtime::shm {
namespace {

constexpr uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr uint64_t ranksOffset = roundUp(sizeof(ControlHeader), 4096);

uint64_t groupStride(uint64_t worldSize) {
  return sizeof(GroupHeader) + worldSize * sizeof(GroupMember);
}
uint64_t groupsOffset(uint64_t worldSize) {
  return roundUp(ranksOffset + worldSize * sizeof(RankState), 4096);
}
uint64_t offsetsOffset(uint64_t worldSize, uint64_t groupCapacity) {
  return roundUp(
      groupsOffset(worldSize) + groupCapacity * groupStride(worldSize), 4096);
}

uint64_t recordsOffset(uint64_t worldSize, uint64_t groupCapacity) {
  return roundUp(offsetsOffset(worldSize, groupCapacity) +
                     worldSize * publishedTransfers * sizeof(BufferOffsets),
                 4096);
}

uint64_t channelsOffset(uint64_t worldSize, uint64_t groupCapacity) {
  return roundUp(recordsOffset(worldSize, groupCapacity) +
                     worldSize * mostSlots * sizeof(TransferRecord),
                 4096);
}

/// The slots of each rank begin at a page, and so does what would follow them.
uint64_t slotsOffset(std::span<const uint64_t> slotBytes,
                     uint64_t groupCapacity, size_t rank) {
  uint64_t offset =
      roundUp(channelsOffset(slotBytes.size(), groupCapacity) +
                  slotBytes.size() * mostChannels * sizeof(ChannelHeader),
              4096);
  for (uint64_t bytes : slotBytes.first(rank))
    offset += roundUp(bytes, 4096);
  return offset;
}

} // namespace

uint64_t ControlPage::sizeFor(std::span<const uint64_t> slotBytes,
                              int groupCapacity) {
  return slotsOffset(slotBytes, groupCapacity, slotBytes.size());
}

Result<ControlPage> ControlPage::map(int descriptor) {
  ControlPage page;
  POLYRANK_ASSIGN(memory, SharedMapping::map(descriptor, "the control page"));
  page.memory = std::move(memory);
  return std::move(page);
}

Result<ControlPage> ControlPage::initialize(int descriptor,
                                            std::span<const uint64_t> slotBytes,
                                            int groupCapacity,
                                            const ProgramDigest &program) {
  POLYRANK_ASSIGN(page, map(descriptor));
  ControlHeader &header = page.header();
  header.version = controlVersion;
  header.worldSize = static_cast<uint32_t>(slotBytes.size());
  header.groupCapacity = groupCapacity;
  header.program = program;
  for (size_t rank = 0; rank < slotBytes.size(); ++rank) {
    RankState &state = page.rank(static_cast<int>(rank));
    state.slotsOffset = slotsOffset(slotBytes, groupCapacity, rank);
    state.slotsSize = slotBytes[rank];
  }
  return std::move(page);
}

ControlHeader &ControlPage::header() const {
  return *reinterpret_cast<ControlHeader *>(memory.data());
}

RankState &ControlPage::rank(int rank) const {
  return reinterpret_cast<RankState *>(memory.data() + ranksOffset)[rank];
}

GroupHeader &ControlPage::group(uint32_t index) const {
  uint64_t world = header().worldSize;
  return *reinterpret_cast<GroupHeader *>(memory.data() + groupsOffset(world) +
                                          index * groupStride(world));
}

GroupMember &ControlPage::member(uint32_t groupIndex, int member) const {
  return reinterpret_cast<GroupMember *>(&group(groupIndex) + 1)[member];
}

std::span<BufferOffsets> ControlPage::offsets(int rank) const {
  auto *all = reinterpret_cast<BufferOffsets *>(
      memory.data() +
      offsetsOffset(header().worldSize, header().groupCapacity));
  return {all + rank * size_t(publishedTransfers), publishedTransfers};
}

std::span<TransferRecord> ControlPage::records(int rank) const {
  auto *all = reinterpret_cast<TransferRecord *>(
      memory.data() +
      recordsOffset(header().worldSize, header().groupCapacity));
  return {all + rank * size_t(mostSlots), mostSlots};
}

std::span<ChannelHeader> ControlPage::channels(int rank) const {
  auto *all = reinterpret_cast<ChannelHeader *>(
      memory.data() +
      channelsOffset(header().worldSize, header().groupCapacity));
  return {all + rank * size_t(mostChannels), mostChannels};
}

std::span<std::byte> ControlPage::slots(int rank) const {
  const RankState &state = this->rank(rank);
  return {memory.data() + state.slotsOffset, state.slotsSize};
}

std::vector<int> ControlPage::blockersOf(const Wait &wait) const {
  std::vector<int> blockers;
  if (!wait.isForStarts()) // a rank that works on a piece waits for nobody
    return blockers;
  for (uint32_t m = 0; m < group(wait.group).size; ++m) {
    const GroupMember &each = member(wait.group, static_cast<int>(m));
    if (each.operations[wait.slot].arrival.load() != wait.turn + 1)
      blockers.push_back(each.rank);
  }
  return isOver(wait) ? std::vector<int>() : blockers;
}

void ControlPage::wakeSleepers() const {
  for (uint32_t g = 0; g < header().groupCapacity; ++g) {
    if (group(g).state.load() == EntryState::Free)
      break; // groups are claimed in order
    for (OperationSlot &operation : group(g).operations)
      wakeAll(operation.turn);
  }
}

} // namespace polyrank::runtime::shm
