// The memory through which the ranks of one machine find and wait for each
// other.

#pragma once

#include "runtime/plan/Collectives.h"
#include "support/Futex.h"
#include "support/SharedMemory.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace polyrank::runtime::shm {

// Everything here lies in one memfd, which is initially zero and is shared by
// processes of the same build.

inline constexpr uint32_t controlVersion = 9;
/// Operations that a group may have in flight; a power of two.
inline constexpr uint32_t ringSlots = 16;
/// The most transfers of one operation; a larger bucket becomes several
/// operations.
inline constexpr int64_t roundTransfers = 1024;
/// Up to so many bytes an operation is small: who starts it last does all of
/// it. Across machines starts carry the inputs.
using runtime::smallBytes;
/// The number of transfers whose buffer offsets a rank can publish at a time,
/// over all its operations in flight.
inline constexpr uint32_t publishedTransfers = 1u << 15;
/// The most slots of all channels in which one rank sends.
inline constexpr uint32_t mostSlots = 1u << 14;
/// The most channels in which one rank sends; a power of two.
inline constexpr uint32_t mostChannels = 1u << 12;

/// Tells one plan from another.
using ProgramDigest = std::array<uint8_t, 16>;

struct ControlHeader {
  uint32_t version;
  uint32_t worldSize;
  uint32_t groupCapacity;
  ProgramDigest program; // that the memory is for
};

struct alignas(128) RankState {
  /// A Wait or ChannelWait while the rank sleeps, else 0.
  std::atomic<uint64_t> waiting;
  /// For a ChannelWait: the number of the channel among the sender's.
  std::atomic<uint32_t> channel;
  /// Where the slots of its channels lie in the control memory.
  uint64_t slotsOffset, slotsSize;
  /// The number of the rank's communication threads. It has a cache line apart
  /// from what is written often.
  alignas(128) std::atomic<uint32_t> helpers;
  /// Rung when an operation begins that this rank's communication threads can
  /// work on.
  alignas(128) std::atomic<uint32_t> bell; // futex
  std::atomic<uint32_t> listeners;         // threads that sleep until it rings
};

/// What a rank sleeps for, in one word, so that no reader combines the
/// operation of one wait with the turn of another. A rank that has not been
/// scheduled since it was woken still shows a wait that has ended
/// (ControlPage::isOver).
struct Wait {
  uint32_t group, slot, turn;

  uint64_t word() const {
    return uint64_t(group + 1) << 36 | uint64_t(slot) << 32 | turn;
  }
  /// Decodes a word that is not 0.
  static Wait of(uint64_t word) {
    return {uint32_t(word >> 36) - 1, uint32_t(word >> 32 & 15),
            uint32_t(word)};
  }
  /// True if the wait is for members that have not started the operation.
  /// Otherwise all have started it, and some of them are still working.
  bool isForStarts() const { return turn % 2 == 0; }
};
static_assert(ringSlots <= 16 && (ringSlots & (ringSlots - 1)) == 0);

/// What a rank sleeps for on a channel: the peer's next value, or a slot that
/// the peer frees by receiving a value.
struct ChannelWait {
  bool isForRoom;
  uint32_t peer;
  uint32_t count; // values that this rank has sent or received, mod 2^32

  static constexpr uint64_t mark = uint64_t(1) << 63;
  static bool isOne(uint64_t word) { return word & mark; }
  uint64_t word() const {
    return mark | uint64_t(isForRoom) << 62 | uint64_t(peer) << 32 | count;
  }
  static ChannelWait of(uint64_t word) {
    return {bool(word >> 62 & 1), uint32_t(word >> 32) & 0x3fffffff,
            uint32_t(word)};
  }
};

/// An entry is free until one end of a channel claims it, and says which
/// channel it is.
enum class EntryState : uint32_t { Free, Claimed, Ready };

/// A channel. Its slots lie in the sender's part of the control memory.
struct alignas(128) ChannelHeader {
  std::atomic<EntryState> state;
  uint32_t receiver;
  uint64_t id;
  std::atomic<uint64_t> sent, received;
  std::atomic<uint32_t> bell; // futex: rung when `sent` or `received` grows
  std::atomic<uint32_t> sleepers;
  /// The sender writes these before it sends the first value.
  /// @{
  uint32_t slots;
  uint32_t firstRecord; // the index of the first slot's TransferRecord
  uint64_t bytes;       // of a value
  uint64_t offset;      // of the first slot, among those of the sender
  /// @}

  /// True once what the wait is for has happened.
  bool isOver(const ChannelWait &wait) const {
    return wait.isForRoom ? wait.count - uint32_t(received.load()) < slots
                          : int32_t(uint32_t(sent.load()) - wait.count) > 0;
  }
};

/// The times of a slot: of the value in it, and when the value before it was
/// removed.
struct TransferRecord {
  int64_t sentAt, arrivesAt, freedAt; // monotonicNanoseconds
};

/// What stands for a CollectiveKind in an exchange.
inline constexpr int32_t exchangeKind = -1;

/// Describes an operation as one member sees it. The records of all members
/// must be equal.
struct OperationRecord {
  uint64_t id;
  int32_t kind; // CollectiveKind, or exchangeKind
  int8_t reduction, dtype;
  uint16_t carried; // bytes of the inputs, if the start carries them, else 0
  uint32_t round;   // part number, if there are many transfers
  uint32_t transfers;
  int64_t elements; // of all inputs
  uint64_t shapes;  // digest of all extents and of the permutation

  bool operator==(const OperationRecord &) const = default;
};

/// What a member publishes when it starts an operation. It stays until the
/// operation is done, that is, until nobody works on a piece of it any more.
struct alignas(64) MemberOperation {
  OperationRecord record;
  uint32_t firstOffsets;         // index of its transfers' published offsets
  uint64_t exchanged;            // what the member gives in an exchange
  std::atomic<uint32_t> arrival; // turn + 1 of the operation, once started
};

static_assert(sizeof(MemberOperation) == 64); // one cache line
static_assert(smallBytes < 1 << 16);          // see OperationRecord::carried

struct alignas(64) GroupMember {
  int32_t rank;
  MemberOperation operations[ringSlots];
  /// For each operation: turn + 1 in the upper half, and in the lower half the
  /// number of unclaimed pieces of this member's part of the work. It has cache
  /// lines of its own, apart from what others read.
  alignas(64) std::atomic<uint64_t> claims[ringSlots];
};

/// Operation n of a group has slot n mod ringSlots. Its turn is t = 2 (n div
/// ringSlots) until all members have started it, t + 1 until all its pieces are
/// finished, and then t + 2, which is the turn of the slot's next operation.
struct OperationSlot {
  alignas(64) std::atomic<uint32_t> turn; // futex
  std::atomic<uint32_t> sleepers;
  /// The number of members that have started it, in the upper half, and the
  /// number of unfinished pieces, in the lower half.
  alignas(64) std::atomic<uint64_t> progress;
  // Written by the rank that starts the operation last, and by the one that
  // finishes its last piece; valid until all members have started the slot's
  // next operation.
  int32_t lastStarter, lastFinisher;
  int64_t startedAt, finishedAt; // monotonicNanoseconds
  int64_t linkEndsAt;            // 0 if the link is not paced

  static constexpr uint64_t oneStart = uint64_t(1) << 32;
};

struct alignas(64) GroupHeader {
  std::atomic<EntryState> state;
  uint64_t key; // hash of the members
  uint32_t size;
  int64_t linkFreeAt; // when a paced link has finished all started operations
  OperationSlot operations[ringSlots];
};

struct BufferOffsets {
  uint64_t input, output;
};

/// A mapping of the whole control memfd.
class ControlPage {
public:
  /// `slotBytes` are those of the channels in which each rank sends.
  static uint64_t sizeFor(std::span<const uint64_t> slotBytes,
                          int groupCapacity);
  /// Maps a control page that is all zeros, and fills the header.
  static Result<ControlPage> initialize(int descriptor,
                                        std::span<const uint64_t> slotBytes,
                                        int groupCapacity,
                                        const ProgramDigest &program);
  static Result<ControlPage> map(int descriptor);

  ControlHeader &header() const;
  RankState &rank(int rank) const;
  GroupHeader &group(uint32_t index) const;
  GroupMember &member(uint32_t group, int member) const;
  /// The ring of `publishedTransfers` buffer offsets that a rank publishes.
  std::span<BufferOffsets> offsets(int rank) const;
  /// The channels in which the rank sends, and the records of their slots.
  /// @{
  std::span<ChannelHeader> channels(int rank) const;
  std::span<TransferRecord> records(int rank) const;
  /// @}
  /// The slots of these channels.
  std::span<std::byte> slots(int rank) const;
  /// True once what the wait is for has happened.
  bool isOver(const Wait &wait) const {
    return group(wait.group).operations[wait.slot].turn.load() != wait.turn;
  }

  /// Returns the members of the group that have not started the awaited
  /// operation; none if the wait is over or all have started it.
  std::vector<int> blockersOf(const Wait &wait) const;

  /// Wakes all ranks that sleep until an operation goes on.
  void wakeSleepers() const;

private:
  SharedMapping memory;
};

} // namespace polyrank::runtime::shm
