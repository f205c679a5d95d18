// Chooses one candidate per node so that the objective is least.
//
// If the producer of a value and its users disagree, the value is resharded, at
// the bytes that the reshard planner finds; a layout that several users want is
// made once.

#pragma once

#include "compiler/sharding/Candidate.h"
#include "compiler/sharding/ReshardCosts.h"

namespace polyrank::sharding {

struct Solution {
  /// Per node: the number of its candidate.
  std::vector<int> candidates;
  /// A lower bound: no assignment costs less than `bound`.
  Objective objective, bound;
};

class Solver {
public:
  Solver(const SideTable &table, const Candidates &candidates,
         ReshardCosts &costs)
      : table(table), values(table.values), candidates(candidates),
        costs(costs) {}

  Solution solve();
  /// The objective of one candidate per node.
  Objective evaluate(llvm::ArrayRef<int> chosen);
  /// What each node adds to the objective, with the moves of its results.
  std::vector<Objective> evaluateNodes(llvm::ArrayRef<int> chosen);
  /// Replaces the candidate of one node at a time by the one that costs least
  /// beside the other nodes' candidates, until nothing improves.
  void improve(std::vector<int> &chosen);

private:
  class Tables;

  /// The objective of moving `value` to its users.
  Objective evaluateValue(const TensorValue &value, llvm::ArrayRef<int> chosen);
  int64_t getValueBytes(const TensorValue &value, LayoutAttr from,
                        llvm::ArrayRef<LayoutAttr> wanted);

  const SideTable &table;
  llvm::ArrayRef<TensorValue> values;
  const Candidates &candidates;
  ReshardCosts &costs;
};

} // namespace polyrank::sharding
