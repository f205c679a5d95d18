// The stage assignment: which ops of an order end a stage.
//
// A stage is an interval of the order. Its cost follows from the interval
// alone:
//
//   time    of its ops, and of the messages that it receives and sends
//   bytes   of each value that an earlier stage computes and it uses, once
//   memory  of its parameters, and of what its microbatches in flight keep
//
// The best cut has the smallest time of its slowest stage; among these cuts,
// the fewest bytes that cross, summed over all stages; and among these, the
// least memory of the stage that needs most. All three are exact, by dynamic
// programming over all cuts of the order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "support/LinkTime.h"

namespace polyrank::stages {

struct CutOp {
  /// Picoseconds for one microbatch, the backward included.
  int64_t time = 0;
  /// Bytes that another stage receives of the result, plus those of the
  /// gradient that comes back, and in how many messages: one for each value and
  /// each gradient.
  int64_t bytes = 0, messages = 0;
  /// Bytes that a microbatch keeps for the backward.
  int64_t kept = 0;
  /// Numbers of the ops that compute its operands; each is smaller than its
  /// own.
  std::vector<int> operands;
  std::vector<int> parameters;
  /// The stage that the user chose; -1 means any.
  int fixed = -1;
};

struct CutParameter {
  /// Bytes that every stage using the parameter holds, and additional bytes
  /// that its owner holds, the first of these stages.
  int64_t everywhere = 0, owned = 0;
};

struct CutProblem {
  std::vector<CutOp> ops;
  std::vector<CutParameter> parameters;
  int stages = 1;
  /// How many microbatches are in flight at once, by stage.
  std::vector<int64_t> live;
  /// The link over which the values of stages go.
  LinkTime link;
  /// The largest number of pairs of cut points to examine. Of a longer order
  /// some cut points are left out.
  int64_t budget = 200'000'000;
};

/// The objectives, minimised in lexicographic order.
struct CutObjective {
  int64_t time = 0;   // picoseconds of the slowest stage
  int64_t bytes = 0;  // bytes that cross, over all stages
  int64_t memory = 0; // bytes of the stage that needs most

  auto operator<=>(const CutObjective &) const = default;
};

struct Cut {
  /// The order that was cut, as numbers of the problem's ops.
  std::vector<int> order;
  /// Stage k has the ops of `order` from ends[k - 1] (or 0) to ends[k].
  std::vector<int> ends;
  CutObjective objective;
  /// A lower bound on the time for any order: the mean over all stages, the
  /// largest op, or what the user put on one stage.
  int64_t bound = 0;
  /// The places where the order could be cut, and how many of them were
  /// examined.
  size_t places = 0, considered = 0;
  /// The number of candidate stages, from one place to another, that were
  /// examined.
  int64_t visited = 0;
};

/// The error that the stages from `first` to `last` have too few ops: only
/// `ops`, after op `after` and before op `before`, which the user has put on
/// the neighbouring stages (-1: the model begins or ends there).
struct TooFewOps {
  int first = 0, last = 0;
  int ops = 0;
  int after = -1, before = -1;
};

/// Cuts the ops in the order of the problem.
std::variant<Cut, TooFewOps> cutInOrder(const CutProblem &problem);

/// Cuts the best of some orders: the problem's own, and one that keeps together
/// what does not depend on each other, such as two towers. No op is on an
/// earlier stage than its operands (StagePatterns.h).
std::variant<Cut, TooFewOps> cutIntoStages(const CutProblem &problem);

/// Picoseconds of `messages` with so many bytes together.
inline int64_t transferTime(const LinkTime &link, int64_t messages,
                            int64_t bytes) {
  return wholePicoseconds(static_cast<double>(messages) * link.latency +
                          static_cast<double>(bytes) * link.perByte);
}

/// The cost of one stage.
struct StageCost {
  int64_t time = 0;     // of its ops, without transfers
  int64_t received = 0; // bytes
  int64_t sent = 0;     // bytes, of each value once
  int64_t messages = 0; // that it receives and sends
  int64_t memory = 0;

  /// Its ops and its transfers, in picoseconds.
  int64_t totalTime(const LinkTime &link) const {
    return time + transferTime(link, messages, received + sent);
  }
};
/// Returns the cost of ops [begin, end) of the problem's own order as stage
/// `stage`, in time proportional to the whole problem.
StageCost getStageCost(const CutProblem &problem, int stage, int begin,
                       int end);
/// The problem with its ops in this order.
CutProblem reorder(const CutProblem &problem, const std::vector<int> &order);

/// Returns orders in which operands come before users, the problem's own order
/// first.
std::vector<std::vector<int>> getCutOrders(const CutProblem &problem);

} // namespace polyrank::stages
