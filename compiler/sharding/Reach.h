// Reach: which dims may be split. Constraints spread along factors, by
// priority.
//
// From each constraint, in order of priority, its sub-axes spread along
// factors, through every node that could be split there. Within one priority
// the constraints on parameters come first: if a weight decides how an op
// computes, sequence parallelism around the op does not. A node that a sub-axis
// reaches at one level is not reached again at a less important one. The result
// does not depend on the order of ops.

#pragma once

#include "compiler/sharding/SideTable.h"

namespace polyrank::sharding {

/// The arrival of a sub-axis at a node.
struct Arrival {
  int factor;
  /// The constraint from which the sub-axis spread, and the number of nodes
  /// that it crossed since.
  int constraint, distance;
};

struct NodeReach {
  /// Per factor: true if along it the node's values depend on constants alone.
  /// Such a factor is split as the users want, and spreads nothing to them.
  llvm::SmallVector<bool> isFree;
  /// Per sub-axis: the level at which it reached the node (-1: never), and the
  /// arrivals.
  llvm::SmallVector<int> level;
  llvm::SmallVector<llvm::SmallVector<Arrival, 2>> arrivals;
  bool has(int subAxis, int factor) const {
    return llvm::any_of(arrivals[subAxis], [&](const Arrival &arrival) {
      return arrival.factor == factor;
    });
  }
};

struct Reach {
  /// Per node: the sub-axes that reach it.
  std::vector<NodeReach> nodes;
  /// Per value and sub-axis: a bit for each kind of partial that it may be.
  std::vector<llvm::SmallVector<uint8_t>> partials;

  const NodeReach &of(const Node &node) const { return nodes[node.number]; }
};

Reach findReach(const SideTable &table);

} // namespace polyrank::sharding
