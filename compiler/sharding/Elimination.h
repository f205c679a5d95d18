// Minimises a sum of tables over discrete variables, exactly where it can.
//
// First dead-end elimination (Goldstein 1994): a value of a variable is dropped
// where another value is as good whatever the other variables are. Then
// variable elimination (Bertele, Brioschi 1972; bucket elimination, Dechter
// 1999): the tables that mention a variable are added up and the variable is
// minimised out, the one with the smallest resulting table first. Time and
// memory are exponential only in the width of the graph. Where a table would
// pass the limit, the tables are cut into groups that are minimised separately
// (mini-buckets, Dechter and Rish 2003): the result is then a lower bound, and
// the assignment a good but maybe not the best one.

#pragma once

#include <vector>

#include "compiler/sharding/Objective.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::sharding {

class Elimination {
public:
  /// Returns the variable's number; its values are 0 .. size - 1.
  int addVariable(int size);
  int getSize(int variable) const { return sizes[variable]; }
  /// `cost` is called with every assignment of the distinct variables `scope`.
  void addTable(llvm::ArrayRef<int> scope,
                llvm::function_ref<Objective(llvm::ArrayRef<int>)> cost);

  struct Solution {
    std::vector<int> values;
    /// No assignment costs less.
    Objective bound;
  };
  /// `limit`: entries of the largest table.
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
