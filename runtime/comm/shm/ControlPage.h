// The memory through which the ranks of one machine find, wait for and watch
// each other.

#pragma once

#include "runtime/comm/Frontier.h"
#include "runtime/plan/Channels.h"
#include "support/Result.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime::shm {

// Everything here lies in one memfd, which starts as zeros, and is shared by
// processes of the same build. Atomics are lock-free, hence address-free.
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

inline constexpr uint32_t controlVersion = 6;
inline constexpr size_t messageCapacity = 2048;
/// Operations that a group may have in flight; a power of two.
inline constexpr uint32_t ringSlots = 16;
/// Transfers of one operation; a larger bucket is several.
inline constexpr int64_t roundTransfers = 1024;
/// Transfers whose places a rank can publish at a time, over all its operations
/// in flight.
inline constexpr uint32_t publishedTransfers = 1u << 15;
/// Slots that a rank may have in all channels in which it sends.
inline constexpr uint32_t mostSlots = 1u << 14;

/// Tells one plan from another.
using ProgramDigest = std::array<uint8_t, 16>;

/// Names a process for as long as anyone may ask: the start time tells it from
/// a later process with the same id.
struct ProcessName {
  int32_t pid = 0;
  // Clock ticks since boot, as in /proc/PID/stat; 0: it was not to be had.
  uint64_t startTime = 0;
};

enum class AbortState : uint32_t { Running, Writing, Aborted };

struct ControlHeader {
  uint32_t version;
  uint32_t worldSize;
  uint32_t groupCapacity;
  uint64_t spinNanoseconds;
  ProcessName launcher;
  ProgramDigest program; // what the launcher read, and each rank must have read
  /// The latest step that any rank has begun, and whether none later may be: in
  /// one word, so that all ranks end behind the same one.
  Frontier frontier;
  std::atomic<AbortState> aborted;
  char message[messageCapacity]; // NUL-terminated, once Aborted
};

enum class RankPhase : uint32_t { Starting, Attaching, Running, Left };

struct alignas(128) RankState {
  std::atomic<RankPhase> phase;
  ProcessName process; // once Running
  std::atomic<uint64_t> step;
  std::atomic<uint32_t> command;
  std::atomic<uint64_t> operation; // id of the latest collective
  std::atomic<uint64_t>
      waiting; // a Wait or ChannelWait while it sleeps, else 0
  std::atomic<uint64_t> channel; // of a ChannelWait: where it is in the arena
  std::atomic<uint64_t> beats;   // counts what it does besides commands
  /// Communication threads that the rank has; apart from what is written often.
  alignas(128) std::atomic<uint32_t> helpers;
  /// How long others have waited, all together, for this rank to start what
  /// they had started. Written by them.
  alignas(128) std::atomic<uint64_t> awaitedNanoseconds;
  /// Rung when an operation that they could work on has begun, if there are
  /// any.
  alignas(128) std::atomic<uint32_t> bell; // futex
  std::atomic<uint32_t> listeners;         // that sleep until it rings
};

/// What a rank sleeps for, in one word, so that nobody sees the operation of
/// one wait with the turn of another. A rank that has no processor to wake up
/// on still shows a wait that is long over (ControlPage::isOver).
struct Wait {
  uint32_t group, slot, turn;

  uint64_t word() const {
    return uint64_t(group + 1) << 36 | uint64_t(slot) << 32 | turn;
  }
  /// Of a word that is not 0.
  static Wait of(uint64_t word) {
    return {uint32_t(word >> 36) - 1, uint32_t(word >> 32 & 15),
            uint32_t(word)};
  }
  /// Not all members have started the operation; else all have, and some of
  /// them are at work.
  bool isForStarts() const { return turn % 2 == 0; }
};
static_assert(ringSlots <= 16 && (ringSlots & (ringSlots - 1)) == 0);

/// The same of a rank that waits for one other: for its next value, or until it
/// has received one and freed its slot.
struct ChannelWait {
  bool isForRoom;
  uint32_t peer;
  uint32_t count; // of values that this rank has sent or received, modulo 2^32

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

/// In front of a channel's slots, in the sender's arena.
struct alignas(channelAlignment) ChannelHeader {
  std::atomic<uint64_t> sent, received;
  std::atomic<uint32_t> bell; // futex: rung when one of them has grown
  std::atomic<uint32_t> sleepers;
  /// Once the sender has opened it: 1 + the first of its slots'
  /// TransferRecords.
  std::atomic<uint32_t> firstRecord;
  uint32_t slots;
  uint64_t id, bytes;

  /// Whether what a rank slept for has come.
  bool isOver(const ChannelWait &wait) const {
    return wait.isForRoom ? wait.count - uint32_t(received.load()) < slots
                          : int32_t(uint32_t(sent.load()) - wait.count) > 0;
  }
};
static_assert(sizeof(ChannelHeader) == channelAlignment);

/// Of a slot: the value in it, and when the one before it made room.
struct TransferRecord {
  int64_t sentAt, arrivesAt, freedAt; // monotonicNanoseconds
};

/// What a member does in a group. All members' must be equal.
struct OperationRecord {
  uint64_t id;
  int32_t kind; // CollectiveKind; -1 for a barrier
  int8_t reduction, dtype;
  uint32_t round; // of a collective with many transfers
  uint32_t transfers;
  int64_t elements; // of all inputs
  uint64_t shapes;  // digest of all extents and of the permutation

  bool operator==(const OperationRecord &) const = default;
};

/// What a member publishes when it starts an operation. It stays until the
/// operation is done, that is, as long as anyone has a piece of it in hand.
struct alignas(64) MemberOperation {
  OperationRecord record;
  uint32_t firstOffsets;         // where its transfers' places are published
  std::atomic<uint32_t> arrival; // turn + 1 of the operation when it started it
};

struct alignas(64) GroupMember {
  int32_t rank;
  MemberOperation operations[ringSlots];
  /// Of each operation, turn + 1 in the upper half, and in the lower one how
  /// many pieces of this member's part of the work nobody has claimed. Apart
  /// from what others read meanwhile.
  alignas(64) std::atomic<uint64_t> claims[ringSlots];
};

/// Operation n of a group has slot n mod ringSlots. Its turn is t = 2 (n div
/// ringSlots) until all members have started it, t + 1 until all its pieces are
/// finished, and then t + 2, which is that of the slot's next operation.
struct OperationSlot {
  alignas(64) std::atomic<uint32_t> turn; // futex
  std::atomic<uint32_t> sleepers;
  /// How many members have started it, in the upper half, and in the lower one
  /// how many pieces are not finished.
  alignas(64) std::atomic<uint64_t> progress;
  // Written by the rank that starts it last, and by the one that finishes the
  // last piece; they stay until all members have started the slot's next one.
  int32_t lastStarter, lastFinisher;
  int64_t startedAt, finishedAt; // monotonicNanoseconds
  int64_t linkEndsAt;            // 0: it goes over no paced link

  static constexpr uint64_t oneStart = uint64_t(1) << 32;
};

enum class GroupState : uint32_t { Free, Claimed, Ready };

struct alignas(64) GroupHeader {
  std::atomic<GroupState> state;
  uint64_t key; // hash of the members
  uint32_t size;
  int64_t linkFreeAt; // when a paced link has done what was started so far
  OperationSlot operations[ringSlots];
};

struct BufferOffsets {
  uint64_t input, output;
};

/// A mapping of the whole control memfd. Unmaps itself.
class ControlPage {
public:
  ControlPage() = default;
  ControlPage(ControlPage &&other) noexcept;
  ControlPage &operator=(ControlPage &&other) noexcept;
  ~ControlPage();

  static uint64_t sizeFor(int worldSize, int groupCapacity);
  /// Maps a page of this size that is all zeros, and fills the header.
  static Result<ControlPage> initialize(int descriptor, int worldSize,
                                        int groupCapacity,
                                        uint64_t spinNanoseconds,
                                        const ProgramDigest &program);
  static Result<ControlPage> map(int descriptor);

  ControlHeader &header() const;
  RankState &rank(int rank) const;
  GroupHeader &group(uint32_t index) const;
  GroupMember &member(uint32_t group, int member) const;
  /// The ring of `publishedTransfers` places that a rank publishes.
  std::span<BufferOffsets> offsets(int rank) const;
  /// Of the slots of all channels in which the rank sends.
  std::span<TransferRecord> records(int rank) const;
  /// Whether what a rank slept for has come.
  bool isOver(const Wait &wait) const {
    return group(wait.group).operations[wait.slot].turn.load() != wait.turn;
  }

  /// The members of the group that have not started what the wait is for; none
  /// where it is over, or where all have.
  std::vector<int> blockersOf(const Wait &wait) const;

  /// Whether a rank may begin this step, which is later than any before; then
  /// all ranks will.
  bool mayBegin(uint64_t step) const;
  /// Whether no rank will ever begin this step.
  bool isClosedBefore(uint64_t step) const;
  /// Lets no rank begin a step that none has begun; the latest that one has, or
  /// 0.
  uint64_t stopSteps() const;

  /// Ends the job, if it has not ended, and wakes all that sleep.
  void abort(const std::string &message) const;
  /// The error of an aborted job.
  Result<void> health() const;

private:
  std::byte *base = nullptr;
  uint64_t size = 0;
};

ProcessName thisProcess();
/// False once the process has ended, whether or not its parent knows. Where the
/// system does not say (no /proc, no descriptor left), it counts as alive.
bool isAlive(const ProcessName &process);

/// As /proc/PID/stat has it: R runs, S sleeps, D waits for a disk, T is
/// stopped, t by a debugger, Z has ended; '?' where the system does not say.
char processState(int32_t pid);

int64_t monotonicNanoseconds();
/// Sleeps while the word has this value, until a wake or 100 ms have passed.
void sleepWhile(std::atomic<uint32_t> &word, uint32_t value);
void wakeAll(std::atomic<uint32_t> &word);

} // namespace polyrank::runtime::shm
