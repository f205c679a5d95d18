// Simulates the commands of one function by themselves; all ranks that run it
// behave alike. The rank never waits for what ranks of other functions send:
// the arrival of that depends on the programs of all ranks together. So this is
// the time of a step only where all ranks run one function; else
// runtime/plan/StepTimeline.h has it.
//
// Queues are those of compiler/overlap/Queues.h. A command that computes takes
// what compiler/cost/CommandTime.h says, a collective what
// runtime/plan/CollectiveTime.h says. Where a host issues the commands of a
// block more slowly than the device runs them, those for which the device waits
// take longer.

#pragma once

#include "compiler/cost/Machine.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/plan/QueueClock.h"

namespace polyrank::overlap {

/// The durations of commands, in picoseconds.
class Durations {
public:
  /// Creates durations from the links and rates of the machine that the
  /// function runs on. Emits an error if there is none (cost::Machine).
  static mlir::FailureOr<Durations> of(mlir::func::FuncOp function);

  /// The duration of a command: of a collective from its start to its end; of a
  /// send or receive the time to copy; 0 for views and waits.
  int64_t get(mlir::Operation *op) const;
  /// The time from the send until the value has arrived over its link.
  int64_t getArrival(rank::SendOp op) const;

private:
  explicit Durations(cost::Machine machine) : machine(std::move(machine)) {}

  /// The duration without what the host needs.
  int64_t getOnDevice(mlir::Operation *op) const;
  /// Finds the commands of the block that wait for the host.
  void issue(mlir::Block &block);

  cost::Machine machine;
  std::optional<cost::CostModel> model; // set if the function communicates
  /// How much longer commands take because the host has not issued them yet.
  llvm::DenseMap<mlir::Operation *, int64_t> waits;
};

/// The time of one step, in picoseconds.
struct StepTime {
  int64_t makespan = 0;
  /// The sum over all computation.
  int64_t computation = 0;
  /// The sum over all collectives, by queue.
  llvm::MapVector<uint32_t, int64_t> communication;
  /// The number of collectives that a step runs, and how many of them it starts
  /// early.
  int64_t collectives = 0, started = 0;

  int64_t getCommunication() const;
  /// A lower bound for every order of commands: the most loaded queue.
  int64_t getLowerBound() const;
};
StepTime simulate(mlir::func::FuncOp function, const Durations &durations);
/// The time of the commands of a block, a segment for instance.
StepTime simulate(mlir::Block &block, const Durations &durations);

} // namespace polyrank::overlap
