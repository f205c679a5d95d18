// How long a step takes: a simulation of one rank, which is like all others.
//
// A rank has one queue for what it computes and one for each group that it
// communicates in. A queue runs one command after another. A command that is
// computed takes the larger of FLOPs / rate and bytes / rate; a collective takes
// rounds * alpha + bytes / beta (compiler/cost/CostModel.h). A collective that is
// started leaves the computing queue free until its wait.

#pragma once

#include "compiler/cost/CostModel.h"
#include "compiler/target/Target.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::schedule {

/// What commands take, in picoseconds.
class Durations {
public:
  Durations(target::Rates rates, cost::CostModel model)
      : rates(rates), model(std::move(model)) {}

  /// Of a collective from its start to its end; 0 for views and waits.
  int64_t get(mlir::Operation *op) const;

private:
  target::Rates rates;
  cost::CostModel model;
};

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

} // namespace polyrank::schedule
