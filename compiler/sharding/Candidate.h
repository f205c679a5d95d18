// A candidate: one possible choice of layouts for a node's operands and
// results.

#pragma once

#include "compiler/sharding/Objective.h"
#include "dialects/sharding/Layout.h"

namespace polyrank::sharding {

/// The choice of a node for one sub-axis.
struct Choice {
  enum Kind { None, Split, Pass } kind = None;
  /// The factor that is split, if the kind is Split.
  int factor = -1;
  /// If the kind is Pass: the kind of partial, and a bit per partial operand.
  sharding::ReductionKind reduction = sharding::ReductionKind::Sum;
  uint32_t operands = 0;
  /// If a composite factor is split: the results that lack it stay partial sums
  /// (Factor::addsUp), instead of being reduced among the parts.
  bool staysPartial = false;
};

struct Candidate {
  llvm::SmallVector<Choice, 2> choices; // per sub-axis
  /// The layouts of the node's operands and results. Where an operand's fill is
  /// undefined, its padding may hold anything.
  llvm::SmallVector<sharding::LayoutAttr, 3> operands, results;
  /// True if a composite factor is split: the op is to be decomposed.
  bool composite = false;
  /// What the candidate adds to the objective, without the bytes that reshard
  /// its operands to these layouts.
  Objective cost;
};

/// The candidates of each node.
using Candidates = std::vector<llvm::SmallVector<Candidate, 0>>;

} // namespace polyrank::sharding
