// What moves data between ranks: the interface behind which shm stands, and
// later nccl and mpi.

#pragma once

#include "runtime/device/DeviceMemory.h"
#include "runtime/plan/Collectives.h"
#include "support/DType.h"
#include "support/Result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace polyrank::runtime {

/// One member of a collective: plan::Transfer with its buffers resolved to byte
/// offsets into this rank's shared region. Offsets may differ between the ranks
/// of a group, the shape may not.
///
/// A transfer's output is disjoint from its input, except as the kind's rule
/// says (runtime/plan/Collectives.h): Same has output == input, Block output ==
/// input + me * inner and Whole input == output + me * inner, where outer is 1.
/// Apart from that, no transfer's output touches another transfer's buffers.
struct Transfer : TransferShape {
  uint64_t input = 0, output = 0;
};

/// What a transport keeps for one list of ranks.
struct Group {
  uint32_t index = 0;
};

/// One collective over a group, started by each of its ranks in the same order.
/// The spans are read until the wait for it returns.
struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Reduction reduction = Reduction::None;
  DType dtype = DType::F32;
  Group group;
  std::span<const int32_t> permutation =
      {}; // Permute: source member of each member
  std::span<const Transfer> transfers = {};
  uint64_t id = 0; // of the global value that moves
};

/// A collective that was started, until it is waited for.
struct Ticket {
  uint64_t number = 0;
};

/// When a collective came to its end, of which a rank has waited for it; in
/// nanoseconds of CLOCK_MONOTONIC, which all ranks of a machine share.
struct Completion {
  int64_t started = 0;     // by the last of its members,
  int32_t lastStarter = 0; // which is this rank of the job
  int64_t finished = 0;
  int32_t lastFinisher = 0; // who did the last of the work
};

/// A link that collectives are held back to: one takes rounds * latency + bytes
/// sent * time per byte (rounds: runtime/plan/Collectives.h) from when its last
/// member has started it and the link is free, and ends no earlier. What a
/// member sends to another one goes over a link of their own, one for each
/// direction, one value behind the other: each takes latency + bytes * time per
/// byte.
struct PacedLink {
  int64_t picoseconds = 0; // of one round
  int64_t picosecondsPerByte = 0;
};

/// Runs body(begin, end) over pieces that cover [0, range) once, whose bounds
/// are multiples of `grain` (but for the end), on the threads of the rank's
/// team.
using RangeBody = std::function<void(int64_t begin, int64_t end)>;
using ParallelFor =
    std::function<void(int64_t range, int64_t grain, const RangeBody &body)>;

/// One end of a channel: a ring of slots in the sender's shared region, behind
/// a header of 64 bytes (runtime/plan/Channels.h), which is zeros at first and
/// which nobody else touches. Values are received in the order in which they
/// are sent.
struct Channel {
  Group group;
  uint32_t from = 0, to = 0; // members of it
  uint32_t slots = 1;
  uint64_t id = 0;     // of the value that moves
  uint64_t offset = 0; // in the sender's shared region
  uint64_t bytes = 0;  // of each value
};

/// A channel that a transport has opened.
struct ChannelEnd {
  uint32_t index = 0;
};

/// When a value was sent, and when it is there over the link that holds it
/// back; nanoseconds of CLOCK_MONOTONIC.
struct TransferTimes {
  int64_t sent = 0, arrives = 0;
};

/// What one rank's collectives did so far. `bytes` is what the rank sent:
/// sentBytes of each transfer, but nothing in a permute that takes from itself,
/// and only the borders that lie in other ranks' blocks.
struct CollectiveStatistics {
  uint64_t calls = 0, bytes = 0;
  uint64_t nanoseconds = 0;         // in starts and waits
  uint64_t startingNanoseconds = 0; // of these, in starts, but for those of run
  uint64_t waitingNanoseconds = 0;  // of these, waiting for other ranks
};
/// By CollectiveKind, and behind them what is sent to one rank or received from
/// it.
using TransportStatistics =
    std::array<CollectiveStatistics, numCollectiveKinds + 1>;
inline constexpr int transferStatistics = numCollectiveKinds;

/// One rank's end of the connection to all others. All calls are made by one
/// thread, except `abort`. After the first failure, every call on every rank of
/// the job fails with its message: the job is over, and ranks exit.
class Transport {
public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

  /// This rank's shared region, in memory that its device computes in: zeros at
  /// first, aligned to a page, of the size that the job was made with. Offsets
  /// in transfers count from here.
  virtual DeviceSpan sharedMemory() = 0;

  /// Makes the group of `ranks`, in this order, which contain this rank and
  /// no rank twice. Each member makes it, at any time before its first use;
  /// the same list gives the same group.
  virtual Result<Group> createGroup(std::span<const int32_t> ranks) = 0;

  /// Whether `start` can do this: what it moves is well formed and lies in this
  /// rank's shared region. For a program once, before it runs.
  virtual Result<void> check(const Collective &collective) const = 0;

  /// Says that this rank's inputs are there, and that its outputs may be
  /// written, from now until the wait for the ticket returns. Needs a
  /// collective that `check` accepts. Any number may be in flight; but where a
  /// group has more than 16, or all of them more than some ten thousand
  /// transfers, a start first finishes older ones, as their wait does. Where
  /// the members do not agree on id, kind, type or extents, it is an error on
  /// each of them, here or in the wait.
  virtual Result<Ticket> start(const Collective &collective) = 0;

  /// Returns when this rank's outputs are complete and its inputs may be
  /// overwritten. Once for each ticket, in any order. Sums are taken in group
  /// order, so all ranks get equal bits, independent of timing and of the
  /// number of threads; f16 and bf16 are summed in f32 and rounded once;
  /// integers wrap; max and min propagate NaN.
  virtual Result<Completion> wait(Ticket ticket) = 0;

  /// Starts it and waits for it.
  virtual Result<Completion> run(const Collective &collective) {
    POLYRANK_ASSIGN(ticket, start(collective));
    return wait(ticket);
  }

  /// Makes this rank's end of a channel, once, before a value moves. What is
  /// sent is of `bytes` as long as it is not empty.
  virtual Result<ChannelEnd> openChannel(const Channel &channel) = 0;
  /// Waits until a slot is free; when that came to be, in nanoseconds of
  /// CLOCK_MONOTONIC, 0 of one that was never used.
  virtual Result<int64_t> awaitRoom(ChannelEnd end) = 0;
  /// Copies a value to the next slot, when one is free. It arrives as the
  /// group's link says, or where `times` are given as they do.
  virtual Result<Completion>
  send(ChannelEnd end, DeviceSpan value,
       const std::optional<TransferTimes> &times = {}) = 0;
  /// Waits until the next value has been sent.
  virtual Result<TransferTimes> awaitValue(ChannelEnd end) = 0;
  /// Copies the next value, when it has arrived, and frees its slot: now, or
  /// when `freed` says. With `freed` it does not wait for the link.
  virtual Result<Completion>
  receive(ChannelEnd end, DeviceSpan into,
          const std::optional<int64_t> &freed = {}) = 0;

  /// Returns when all members of the group have called it.
  virtual Result<void> barrier(Group group) = 0;

  /// Holds the group's collectives back to a link from now on, one behind the
  /// other. Each member says the same, before the group's first collective.
  virtual void pace(Group group, const PacedLink &link) = 0;

  /// Ends the job from any thread: every rank that waits, and every later call,
  /// fails with this message. The first abort of the job wins.
  virtual void abort(std::string_view message) = 0;

  /// Fails if the job was aborted. Does not wait.
  virtual Result<void> health() = 0;

  /// Whether this rank may begin the next step, and then all ranks will; else
  /// the launcher has asked all to end behind the step before.
  virtual bool mayBegin(uint64_t step) { return true; }
  /// Whether the launcher has asked so, and no rank will begin this step.
  /// Asking begins nothing.
  virtual bool isClosedBefore(uint64_t step) { return false; }

  /// Publishes where this rank is, before each command: for messages, and for
  /// the launcher, which ends a job that does not get on.
  virtual void setProgress(uint64_t step, uint32_t command) = 0;
  /// Says that this rank gets on with what is no command, such as a part of a
  /// file. From any thread.
  virtual void beat() = 0;

  /// Threads for copies and sums; without it the calling thread does them.
  virtual void setParallelFor(ParallelFor parallelFor) = 0;
  /// Has so many threads more, besides the one that calls, do the work of
  /// collectives that are started, from now on, until they are waited for; 0 at
  /// first. No bits change: what they compute with (flush-to-zero) is as on the
  /// calling thread now.
  virtual void setCommThreads(int count) = 0;

  virtual TransportStatistics statistics() const = 0;
};

} // namespace polyrank::runtime
