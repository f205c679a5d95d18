// Where a model is cut: ops in an order, and which of them end a stage.
//
// A stage is an interval of the order. What it costs follows from the interval
// alone:
//
//   time    of its ops, and of the bytes that it receives and sends
//   bytes   of each value that an earlier stage made and it uses, once
//   memory  of its parameters, and of what its microbatches in flight keep
//
// The best cut has the least time of its slowest stage; of these the fewest
// bytes that cross, in sum over all stages; and of these the least memory of
// the stage that needs most. All three are exact, by dynamic programming over
// all cuts of the order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace polyrank::stages {

struct CutOp {
  /// Picoseconds of a microbatch, the backward included.
  int64_t time = 0;
  /// What another stage receives of it, and what comes back.
  int64_t bytes = 0;
  /// Bytes that a microbatch keeps for the backward.
  int64_t kept = 0;
  /// Numbers of the ops that make what it uses; each is smaller than its own.
  std::vector<int> operands;
  std::vector<int> parameters;
  /// The stage that the user chose; -1: any.
  int fixed = -1;
};

struct CutParameter {
  /// Bytes that each stage has which uses it, and that its owner, the first of
  /// them, has beside these.
  int64_t everywhere = 0, owned = 0;
};

struct CutProblem {
  std::vector<CutOp> ops;
  std::vector<CutParameter> parameters;
  int stages = 1;
  /// Of each stage: how many microbatches are in flight at once.
  std::vector<int64_t> live;
  int64_t picosecondsPerByte = 0;
  /// More pairs of cut points than this are not looked at: of a longer order
  /// some are left out.
  int64_t budget = 200'000'000;
};

/// What is made small, the first first.
struct CutObjective {
  int64_t time = 0;   // of the slowest stage, in picoseconds
  int64_t bytes = 0;  // that cross, of all stages
  int64_t memory = 0; // of the stage that needs most, in bytes

  auto operator<=>(const CutObjective &) const = default;
};

struct Cut {
  /// The order that is cut: numbers of the problem's ops.
  std::vector<int> order;
  /// Stage k has the ops of `order` from ends[k - 1] (or 0) to ends[k].
  std::vector<int> ends;
  CutObjective objective;
  /// No cut of any order takes less: the mean of all stages, the largest op, or
  /// what the user put on one stage.
  int64_t bound = 0;
  /// Places where it could be cut, and how many of these were looked at.
  size_t places = 0, considered = 0;
  /// How many stages, from a place to another, were looked at to find it.
  int64_t visited = 0;
};

/// There are too few ops for the stages from `first` to `last`: only `ops`,
/// behind op `after` and in front of op `before`, which the user has put on
/// the stages beside them (-1: the model begins or ends there).
struct TooFewOps {
  int first = 0, last = 0;
  int ops = 0;
  int after = -1, before = -1;
};

/// The ops in their own order.
std::variant<Cut, TooFewOps> cutInOrder(const CutProblem &problem);

/// In the best of some orders: their own, and one that keeps together what
/// does not depend on each other, such as two towers. Ops of no stage below
/// those of their operands (StagePatterns.h).
std::variant<Cut, TooFewOps> cutIntoStages(const CutProblem &problem);

/// What one stage costs.
struct StageCost {
  int64_t time = 0;     // of its ops, without transfers
  int64_t received = 0; // bytes
  int64_t sent = 0;     // bytes, of each value once
  int64_t memory = 0;
};
/// Of ops [begin, end) of the problem's own order as stage `stage`, in time
/// proportional to the whole problem.
StageCost getStageCost(const CutProblem &problem, int stage, int begin,
                       int end);
/// The problem with its ops in this order.
CutProblem reorder(const CutProblem &problem, const std::vector<int> &order);

/// Orders in which operands come before users: their own first.
std::vector<std::vector<int>> getCutOrders(const CutProblem &problem);

} // namespace polyrank::stages
