// Counts which factors of which ops the programs split, padded, and split
// together with a partial of each kind.
//
// Factors of one op are identified by their *role*: their kind and the operands
// and results that have them, such as `reduction 0,1->` for the contracted dim
// of a matmul.

#pragma once

#include <array>
#include <map>
#include <string>

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::test {

class Coverage {
public:
  enum Aspect { Split, SubAxis, Padded, PartialSum, PartialMax, PartialMin };
  static constexpr int numAspects = 6;

  /// Counts the ops of a model that a step no longer has.
  void recordModel(mlir::ModuleOp module);
  /// Counts the ops of a partitioned module.
  void record(mlir::ModuleOp module);
  /// Prints the table. Returns the empty cells without a reason, and the ops
  /// that no program has.
  std::vector<std::string> print() const;
  /// Returns true if every op that passes create for layouts is in some
  /// program.
  bool hasOpsOfLayouts() const;
  /// The graph ops that the generator has no entry for.
  static std::vector<std::string> findUnknownOps(mlir::MLIRContext &context);

private:
  struct Cell {
    int64_t count = 0;
    /// True if an op of this kind and role can have the layout; otherwise
    /// `reason` says why not.
    bool isPossible = false;
    std::string reason;
  };
  using Row = std::array<Cell, numAspects>;

  void recordOp(graph::GraphOp op);

  std::map<std::pair<std::string, std::string>, Row> rows;
  std::map<std::string, int64_t> ops;
};

} // namespace polyrank::test
