// How long a step takes: a simulation of one rank, which is like all others
// that run its function. It never waits for what ranks of other functions send:
// when that is there depends on all schedules together.
//
// Queues are those of runtime/plan/QueueClock.h. A command that is computed
// takes the larger of FLOPs / rate and bytes / rate; a collective takes rounds
// * alpha + bytes / beta (compiler/cost/CostModel.h).

#pragma once

#include "compiler/cost/CostModel.h"
#include "compiler/target/Target.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/plan/QueueClock.h"

namespace polyrank::overlap {

/// What commands take, in picoseconds.
class Durations {
public:
  /// Of links along axes of the function's mesh (CostModel::parse), and of what
  /// a rank reaches: `rates` as GFLOPS:GB_PER_S, or, where that is empty, what
  /// the function's target says of so many threads. Emits an error where one of
  /// them is wrong.
  static mlir::FailureOr<Durations> of(mlir::func::FuncOp function,
                                       llvm::ArrayRef<std::string> links,
                                       llvm::StringRef rates, int64_t threads);

  /// Of a collective from its start to its end; of a send or receive, the time
  /// to copy; 0 for views and waits.
  int64_t get(mlir::Operation *op) const;
  /// Of what is sent, from then until it has arrived over its link.
  int64_t getArrival(rank::SendOp op) const;

private:
  target::Rates rates;
  std::optional<cost::CostModel> model; // of a function that communicates
};

/// The group's number on a QueueClock.
inline uint64_t getQueue(rank::CollectiveOp op) {
  return reinterpret_cast<uintptr_t>(op.getAxes().getAsOpaquePointer());
}

/// One step, in picoseconds.
struct StepTime {
  int64_t makespan = 0;
  /// Of all that is computed.
  int64_t computation = 0;
  /// Of all collectives, by their groups.
  llvm::MapVector<rank::AxesAttr, int64_t> communication;
  /// How often a step runs a collective, and how often it starts one early.
  int64_t collectives = 0, started = 0;

  int64_t getCommunication() const;
  /// No order of commands takes less: each queue has its work.
  int64_t getLowerBound() const;
};
StepTime simulate(mlir::func::FuncOp function, const Durations &durations);

} // namespace polyrank::overlap
