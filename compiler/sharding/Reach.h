// What may be split: constraints spread along factors, by priority.
//
// From each constraint, in order of priority, its atoms spread along factors,
// through every node that could be split there. In one priority the constraints
// on parameters come first: where a weight decides how an op computes, sequence
// parallelism around it does not. A node that an atom reaches at one level is
// not reached again at a less important one. The result is the same for any
// order of ops.

#pragma once

#include "compiler/sharding/SideTable.h"

namespace polyrank::sharding {

/// Where an atom came to a node.
struct Arrival {
  int factor;
  /// The constraint that it comes from, and over how many nodes.
  int constraint, distance;
};

struct NodeReach {
  /// Per factor: whether the node's values depend on constants alone along it.
  /// It is then split as the users want, and spreads nothing to them.
  llvm::SmallVector<bool> isFree;
  /// Per atom: the level at which it was reached (-1: never), and where.
  llvm::SmallVector<int> level;
  llvm::SmallVector<llvm::SmallVector<Arrival, 2>> arrivals;
  bool has(int atom, int factor) const {
    return llvm::any_of(arrivals[atom], [&](const Arrival &arrival) {
      return arrival.factor == factor;
    });
  }
};

struct Reach {
  /// Per node.
  std::vector<NodeReach> nodes;
  /// Per value and atom: the kinds of partial that it may be, as bits.
  std::vector<llvm::SmallVector<uint8_t>> partials;

  const NodeReach &of(const Node &node) const { return nodes[node.number]; }
};

Reach findReach(const SideTable &table);

} // namespace polyrank::sharding
