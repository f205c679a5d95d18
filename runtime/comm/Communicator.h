// The interface of what moves data between ranks. Implemented by shm, for the
// ranks of one machine, and by net, for those of several.

#pragma once

#include "runtime/device/DeviceMemory.h"
#include "runtime/device/Event.h"
#include "runtime/job/Job.h"
#include "runtime/plan/CommunicatorProperties.h"
#include "runtime/plan/Queues.h"
#include "support/ElementType.h"
#include "support/LinkTime.h"
#include "support/Result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// One member of a collective: plan::Transfer with its buffers resolved to byte
/// offsets into this rank's registered memory. Offsets may differ between the
/// ranks of a group, the shape may not.
///
/// A transfer's output is disjoint from its input, except as the kind's rule
/// says (runtime/plan/Collectives.h): Same has output == input, Block output ==
/// input + me * inner and Whole input == output + me * inner, where outer is 1.
/// Apart from that, no transfer's output touches another transfer's buffers.
struct Transfer : TransferShape {
  uint64_t input = 0, output = 0;
};

/// A handle of what a communicator keeps for one list of ranks.
struct Group {
  uint32_t index = 0;
};

/// One collective over a group, started by each of its ranks in the same order.
/// The spans are read until the wait for it returns.
struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Reduction reduction = Reduction::None;
  ElementType dtype = ElementType::F32;
  Group group;
  std::span<const int32_t> permutation = {}; // source of each member
  std::span<const Transfer> transfers = {};
  uint64_t id = 0; // of the global value
  /// The wait follows the start at once, which counts as a part of it.
  bool isAwaited = false;
  /// The queue that the plan has for it (runtime/plan/Queues.h). A communicator
  /// may let it begin only when the one before it on the queue has ended: the
  /// plan's verifier has found that ranks do not wait for each other then. A
  /// communicator with one order for all of them takes the order of the starts.
  uint32_t queue = firstCommunicationQueue;
};

/// Identifies a collective from its start to its wait.
struct Request {
  uint64_t number = 0;
  /// Is over when this rank has started the collective.
  Event started = {};
};

/// When a collective that a rank has waited for began and ended, in nanoseconds
/// of CLOCK_MONOTONIC, which all ranks of a machine share.
struct Completion {
  int64_t started = 0;     // when its last member started it
  int32_t lastStarter = 0; // that member's rank in the job
  int64_t finished = 0;
  int32_t lastFinisher = 0; // the rank that did the last of the work
};

/// The end of a collective, a send or a receive on this rank.
class Arrival {
public:
  /// The completion is known already, or known when `event` is over.
  /// @{
  Arrival(Event event, const Completion &completion)
      : over(std::move(event)), known(completion) {}
  Arrival(Event event, std::shared_ptr<const Completion> completion)
      : over(std::move(event)), later(std::move(completion)) {}
  /// @}

  /// Is over when this rank's outputs are complete and its inputs may be
  /// overwritten.
  const Event &event() const { return over; }
  /// Called once the event is over.
  const Completion &completion() const { return later ? *later : known; }

private:
  Event over;
  Completion known;
  std::shared_ptr<const Completion> later;
};

/// Runs body(begin, end) on the threads of the rank's team, over pieces that
/// cover [0, range) once. The bounds are multiples of `grain`, except the end.
using RangeBody = std::function<void(int64_t begin, int64_t end)>;
using ParallelFor =
    std::function<void(int64_t range, int64_t grain, const RangeBody &body)>;

/// One end of a channel, which takes values of one id from one member of a
/// group to another. Values are received in the order in which they are sent.
/// The communicator has the memory for those on their way.
struct Channel {
  Group group;
  uint32_t from = 0, to = 0; // member numbers
  uint32_t slots = 1;        // how many values may be on their way
  uint64_t id = 0;           // of the value
  uint64_t bytes = 0;        // of each value
  /// False in a rehearsal: only times go through the channel, and the
  /// communicator takes no memory for values.
  bool hasValues = true;
  /// The queue of this rank's end, on which nothing else is.
  uint32_t queue = firstCommunicationQueue;
};

/// A channel that a communicator has opened.
struct ChannelEnd {
  uint32_t index = 0;
};

/// When a value was sent, and when it arrives over its emulated link, in
/// nanoseconds of CLOCK_MONOTONIC.
struct TransferTimes {
  int64_t sent = 0, arrives = 0;
};
/// Says when a value is sent and arrives, once a slot is free. `freed` is when
/// it became free, in nanoseconds of CLOCK_MONOTONIC; 0 if it was never used.
using SendTimes = std::function<Result<TransferTimes>(int64_t freed)>;
/// Says when a slot becomes free, once its value has been sent.
using ReceiveTime = std::function<Result<int64_t>(const TransferTimes &times)>;

/// Totals over one rank's collectives so far. `bytes` is what the rank sent:
/// sentBytes of each transfer, except that a member that permutes from itself
/// sends nothing, and that of a halo only borders in other ranks' blocks count.
struct CollectiveStatistics {
  uint64_t calls = 0, bytes = 0;
  uint64_t nanoseconds = 0;         // spent in starts and waits
  uint64_t startingNanoseconds = 0; // of these, in starts that are not awaited
  uint64_t waitingNanoseconds = 0;  // of these, waiting for other ranks
};
/// Statistics by CollectiveKind, and after them those of sends and receives.
using CommunicatorStatistics =
    std::array<CollectiveStatistics, numCollectiveKinds + 1>;
inline constexpr int transferStatistics = numCollectiveKinds;

/// One rank's end of the connection to all others, the ranks of a job. All
/// calls are made by one thread. The first failure aborts the job, and then
/// every call on every rank fails with its message.
class Communicator {
public:
  virtual ~Communicator() = default;

  int rank() const { return member.rank(); }
  int worldSize() const { return member.worldSize(); }
  /// The job that this rank has joined.
  JobMember &job() const { return member; }
  /// The same on all ranks.
  const CommunicatorProperties &properties() const { return has; }

  /// Lets peers reach memory that this rank's device has allocated for them, as
  /// Sharing::Peers: the buffers of collectives lie in it, and offsets in
  /// transfers count from its start. Called once, before a collective is
  /// checked or started, and does not wait for others. The communicator keeps
  /// the memory until its end.
  virtual Result<void>
  registerMemory(std::shared_ptr<const DeviceMemory> memory) = 0;

  /// Creates the group of `ranks`, in this order; they contain this rank, and
  /// no rank twice. Each member creates it at any time before its first use;
  /// the same list gives the same group.
  ///
  /// With a link, the group's collectives take turns on an emulated one from
  /// now on: from when the last member has started it and the link is free, a
  /// collective takes at least its collectiveTime
  /// (runtime/plan/CollectiveTime.h). Point-to-point transfers have a link of
  /// their own for each pair of members and direction, which carries one value
  /// after another: each takes its messageTime. Each member gives the same
  /// link, before the group's first collective. Only with `emulatesLinks`.
  virtual Result<Group> createGroup(std::span<const int32_t> ranks,
                                    const LinkTime &link = {}) = 0;

  /// Fails unless `start` can run this collective: it must be one that the
  /// communicator has (`properties`), well formed, and its buffers must lie in
  /// this rank's registered memory. Called once for each collective of a
  /// program, before the program runs. Waits until all members have registered
  /// their memory.
  virtual Result<void> check(const Collective &collective) = 0;

  /// Starts a collective that `check` accepts, once `after` is over. From then
  /// until the event of its arrival, this rank's inputs must stay as they are,
  /// and its outputs may be written at any time. Any number of collectives may
  /// be in flight; but if a group has more than 16, or all groups together more
  /// than some ten thousand transfers, a start first finishes older ones, as
  /// their wait would. If the members do not agree on id, kind, type or
  /// extents, each of them gets an error, here or in the wait.
  virtual Result<Request> start(const Collective &collective,
                                Events after = {}) = 0;

  /// Returns the end of a collective, for what comes next. Called once for each
  /// request, in any order. Integers wrap; max and min propagate NaN; what
  /// floating-point sums promise is in `properties`. No bit depends on the
  /// number of threads.
  virtual Result<Arrival> wait(const Request &request) = 0;

  /// Starts a collective and returns its end.
  Result<Arrival> run(const Collective &collective, Events after = {}) {
    Collective awaited = collective;
    awaited.isAwaited = true;
    POLYRANK_ASSIGN(request, start(awaited, after));
    return wait(request);
  }

  /// Opens this rank's end of a channel, before the first value is sent;
  /// several commands may open the same one. Each value has `bytes` bytes or is
  /// empty. The memory for values is resident, so that a send cannot fail for
  /// lack of it.
  virtual Result<ChannelEnd> openChannel(const Channel &channel) = 0;
  /// Copies a value to the next free slot, once there is one and `after` is
  /// over. The value arrives when `times` says, or else when the group's link
  /// says.
  virtual Result<Arrival> send(ChannelEnd end, DeviceSpan value,
                               Events after = {},
                               const SendTimes &times = {}) = 0;
  /// Copies the next value, once it has arrived and `after` is over, and frees
  /// its slot, at the time that `freed` says if it is given, else at the
  /// current one. With `freed` it does not wait for the link.
  virtual Result<Arrival> receive(ChannelEnd end, DeviceSpan into,
                                  Events after = {},
                                  const ReceiveTime &freed = {}) = 0;

  /// Returns what each member of the group gave, in the order of the group,
  /// once all of them have called it: how ranks tell each other single numbers,
  /// and a barrier. It takes its turn among the group's collectives, and does
  /// not wait for the device.
  virtual Result<std::vector<uint64_t>> exchange(Group group,
                                                 uint64_t value) = 0;

  /// Sets the threads for copies and sums; without them the calling thread does
  /// the work.
  virtual void setParallelFor(ParallelFor parallelFor) = 0;
  /// Sets the number of additional threads that work on collectives between
  /// their start and their wait; initially 0. Results keep the same bits: the
  /// threads inherit the calling thread's floating-point mode (flush-to-zero).
  virtual void setCommThreads(int count) = 0;

  virtual CommunicatorStatistics statistics() const = 0;

protected:
  Communicator(JobMember &job, const CommunicatorProperties &properties)
      : member(job), has(properties) {}

private:
  JobMember &member;
  const CommunicatorProperties has;
};

} // namespace polyrank::runtime
