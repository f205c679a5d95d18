// A run without values: computation is slept through, and collectives take the
// time of their links.

#pragma once

#include "runtime/comm/Transport.h"
#include "runtime/device/Device.h"
#include "runtime/plan/StepTimes.h"

#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace polyrank::runtime {

/// A collective of a program. `run` starts it, and waits for it where it has no
/// ticket.
class CollectiveOperation : public Operation {
public:
  /// With what `source` says of it, but without its transfers.
  CollectiveOperation(const plan::Collective &source, Group group);
  /// For what `run` has started.
  virtual Result<void> wait() = 0;
  /// Of the last one that is over.
  const Completion &completion() const { return last; }

protected:
  Collective collective;
  std::vector<int32_t> permutation;
  const bool hasTicket;
  Ticket ticket;
  Completion last;
};

/// What a rank sends to the rank `peer`, or receives from there.
class TransferOperation : public Operation {
public:
  explicit TransferOperation(int32_t peer) : peer(peer) {}
  /// Of the last one.
  const Completion &completion() const { return last; }

protected:
  int32_t peer;
  Completion last;
};

/// Stands in for the device and the links of a rank.
///
/// What would be computed ends when it would on a device that takes exactly the
/// given times. A collective is started on all members as ever, without a byte
/// of data: it ends when its time has passed since the last member started it
/// and the one before it in its group ended.
///
/// A rank sleeps to a point of time, not for a time: that where the command
/// before it should have ended, and its own duration more. So what a sleep is
/// late by, what it takes to start collectives, and what a rank is late since
/// others had its core, makes the next sleeps shorter instead of adding up.
/// Only a collective that ends later than what was computed until then moves
/// that point: nothing can be computed before it. What one rank sends to
/// another is sent, arrives and makes room at such points too, not when the
/// ranks come to it, so that along a pipeline nothing adds up either. For that
/// all ranks must begin a step together.
class Rehearsal {
public:
  /// `times` has what collectives take, too.
  Rehearsal(ProgramTimes times, Transport &transport)
      : times(std::move(times)), transport(transport) {}

  /// Asks the system to wake this thread as soon as it can. Without that Linux
  /// takes 50 us more to do several at once (PR_SET_TIMERSLACK in prctl(2)).
  static void makePunctual();

  /// Stands in for a command that is computed.
  std::unique_ptr<Operation> prepare(uint32_t segment, uint32_t number);
  /// Stands in for a collective.
  std::unique_ptr<CollectiveOperation> prepare(uint32_t segment,
                                               uint32_t number,
                                               const plan::Collective &source,
                                               Group group);

  /// Stands in for a send or a receive.
  std::unique_ptr<TransferOperation> prepareSend(uint32_t segment,
                                                 uint32_t number,
                                                 const Channel &channel,
                                                 ChannelEnd end, int32_t peer);
  std::unique_ptr<TransferOperation> prepareReceive(ChannelEnd end,
                                                    int32_t peer);

  /// A step begins now. Nothing is in flight.
  void beginStep();

private:
  class Sleep;
  class Flight;
  class Sending;
  class Receiving;
  /// Until picoseconds after the step's begin.
  Result<void> sleepUntil(int64_t end);
  Result<void> await(Flight &flight);

  /// The collectives of a group, one behind the other.
  struct Queue {
    std::deque<Flight *> started; // whose end is not known yet
    int64_t freeFrom = 0;         // picoseconds since the step's begin
  };

  /// Goes on at that point of CLOCK_MONOTONIC, in nanoseconds, or later.
  Result<void> goOnFrom(int64_t time);
  int64_t plannedNow() const { return begin + planned / 1000; }

  ProgramTimes times;
  Transport &transport;
  int64_t begin = 0;   // of the step, nanoseconds of CLOCK_MONOTONIC
  int64_t planned = 0; // picoseconds since then
  std::map<uint32_t, Queue> queues; // by group
  /// When the link to a member of a group is free, nanoseconds: by both.
  std::map<std::pair<uint32_t, uint32_t>, int64_t> links;
};

} // namespace polyrank::runtime
