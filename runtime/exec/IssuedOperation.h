// The commands of a program that the host issues: communication, and in a
// rehearsal all of them.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/DeviceMemory.h"
#include "runtime/plan/BufferPlace.h"
#include "runtime/plan/plan_generated.h"

#include <vector>

namespace polyrank::runtime {

/// A prepared command that is no operation of a device.
class IssuedOperation {
public:
  virtual ~IssuedOperation() = default;
  /// Lets the command begin once `after` is over, and returns its end. The
  /// command of a collective with a request is over when it has started.
  virtual Result<Event> issue(Invocation invocation, Events after) = 0;
  /// For one that ended a communication when it was issued last: its end; else
  /// null. It is valid until it is issued again.
  virtual const Arrival *arrival() const { return nullptr; }
};

/// A collective of a program. `issue` starts it, and also takes its end if it
/// has no request.
class CollectiveOperation : public IssuedOperation {
public:
  /// Takes everything but the transfers from `source`.
  CollectiveOperation(const plan::Collective &source, Group group);
  /// Lets it run on this queue of the plan.
  void setQueue(uint32_t queue) { collective.queue = queue; }
  /// Returns the end of the collective that was issued last.
  virtual Result<Event> wait() = 0;
  /// That end.
  const Arrival &lastArrival() const { return last; }
  const Arrival *arrival() const override {
    return hasRequest ? nullptr : &last;
  }

protected:
  Collective collective;
  std::vector<int32_t> permutation;
  const bool hasRequest;
  Request request;
  Arrival last{Event(), Completion()};
};

/// A send to the rank `peer`, or a receive from it.
class TransferOperation : public IssuedOperation {
public:
  explicit TransferOperation(int32_t peer) : peer(peer) {}
  const Arrival *arrival() const override { return &last; }

protected:
  int32_t peer;
  Arrival last{Event(), Completion()};
};

} // namespace polyrank::runtime
