// Assigns the queue on which each command of a function runs.

#pragma once

#include "dialects/rank/Rank.h"
#include "runtime/plan/Queues.h"

namespace polyrank::overlap {

/// The queues of one function: for its timeline, for the passes that order its
/// commands by the timeline, and for its plan.
class Queues {
public:
  /// The number of the command's queue. Waits run on the compute queue, which
  /// waits for another one.
  uint32_t get(mlir::Operation *op);
  /// The number of communication queues so far.
  uint32_t countCommunication() const { return numbers.count(); }

private:
  runtime::QueueNumbers numbers;
};

} // namespace polyrank::overlap
