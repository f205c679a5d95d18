// Minimises a sum of tables over discrete variables, exactly where it can.
//
// First dead-end elimination (Goldstein 1994): a value of a variable is dropped
// if another value is at least as good whatever the other variables are. Then
// variable elimination (Bertele, Brioschi 1972; bucket elimination, Dechter
// 1999): the tables that mention a variable are added up and the variable is
// minimised out, the one with the smallest resulting table first. Time and
// memory are exponential only in the width of the graph. If a table would pass
// the limit, the tables are cut into groups that are minimised separately
// (mini-buckets, Dechter and Rish 2003): the result is then a lower bound, and
// the assignment is good but maybe not the best.

#pragma once

#include <vector>

#include "compiler/sharding/Objective.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::sharding {

class Elimination {
public:
  /// Adds a variable with values 0 .. size - 1, and returns its number.
  int addVariable(int size);
  int getSize(int variable) const { return sizes[variable]; }
  /// Adds the table of `cost` over all assignments of `scope`, which are
  /// distinct variables.
  void addTable(llvm::ArrayRef<int> scope,
                llvm::function_ref<Objective(llvm::ArrayRef<int>)> cost);

  struct Solution {
    std::vector<int> values;
    /// A lower bound: no assignment costs less.
    Objective bound;
  };
  /// Finds the best assignment. `limit` is the most entries that a table may
  /// have.
  Solution solve(size_t limit = size_t(1) << 18) const;

private:
  struct Table {
    llvm::SmallVector<int, 4> scope; // ascending
    std::vector<Objective> entries;  // row-major
  };
  std::vector<int> sizes;
  std::vector<Table> tables;
};

} // namespace polyrank::sharding
