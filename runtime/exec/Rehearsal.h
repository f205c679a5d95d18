// A run without values: computation is replaced by sleeping, and collectives
// take the time of their links.

#pragma once

#include "runtime/exec/IssuedOperation.h"
#include "runtime/plan/StepTimes.h"

#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace polyrank::runtime {

/// Stands in for the device and the links of a rank.
///
/// Computation ends when it would on a device that takes exactly the given
/// times. A collective is started on all members as usual, without a byte of
/// data: it ends when its time has passed since its last member started it and
/// the previous collective of its queue ended.
///
/// A command sleeps until a planned time, not for a duration: the planned end
/// of the command before it plus its own duration. So delays (late wake-ups,
/// the time to start collectives, a core taken by other processes) shorten the
/// next sleeps instead of adding up. Only a collective that ends after the
/// computation before it moves the planned time: nothing can be computed before
/// its end. Sends and receives also use planned times for when a value is sent,
/// arrives and frees its slot, not the times at which the ranks get there, so
/// that delays do not add up along a pipeline either. This requires that all
/// ranks begin a step together.
class Rehearsal {
public:
  /// `times` includes the times of collectives.
  Rehearsal(ProgramTimes times, Communicator &communicator)
      : times(std::move(times)), communicator(communicator) {}

  /// Asks the system to wake this thread as soon as it can. By default Linux
  /// delays timers by up to 50 us, to coalesce them (PR_SET_TIMERSLACK in
  /// prctl(2)).
  static void makePunctual();

  /// Returns the replacement of a command that computes.
  std::unique_ptr<IssuedOperation> prepare(uint32_t segment, uint32_t number);
  /// Returns the replacement of a collective.
  std::unique_ptr<CollectiveOperation> prepare(uint32_t segment,
                                               uint32_t number,
                                               const plan::Collective &source,
                                               Group group);

  /// Returns the replacement of a send or a receive.
  std::unique_ptr<TransferOperation> prepareSend(uint32_t segment,
                                                 uint32_t number,
                                                 const Channel &channel,
                                                 ChannelEnd end, int32_t peer);
  std::unique_ptr<TransferOperation> prepareReceive(ChannelEnd end,
                                                    int32_t peer);

  /// Marks that a step begins now. Nothing may be in flight.
  void beginStep();

private:
  class Sleep;
  class Flight;
  class Sending;
  class Receiving;
  /// Sleeps until `end` picoseconds after the step's begin.
  Result<void> sleepUntil(int64_t end);
  Result<void> await(Flight &flight);

  /// The collectives of a queue, which run one after another.
  struct Queue {
    std::deque<Flight *> started; // end not known yet
    int64_t freeFrom = 0;         // picoseconds since the step's begin
  };

  /// Moves the planned time to `time` (CLOCK_MONOTONIC, nanoseconds) if it is
  /// earlier, and sleeps until it.
  Result<void> goOnFrom(int64_t time);
  int64_t plannedNow() const { return begin + planned / 1000; }

  ProgramTimes times;
  Communicator &communicator;
  int64_t begin = 0;   // of the step, nanoseconds of CLOCK_MONOTONIC
  int64_t planned = 0; // picoseconds since then
  /// By their numbers in the plan.
  std::map<uint32_t, Queue> queues;
  /// When the link of a queue of sends is free, in nanoseconds.
  std::map<uint32_t, int64_t> links;
};

} // namespace polyrank::runtime
