// Which factor of which op the programs split, padded, and split beside a
// partial of each kind.
//
// Factors of one op are told apart by their *role*: their kind and the operands
// and results that have them, `reduction 0,1->` for what a matmul contracts.

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

  /// Counts the ops of a model that no step has any more.
  void recordModel(mlir::ModuleOp module);
  /// Counts the ops of a partitioned module.
  void record(mlir::ModuleOp module);
  /// Prints the table. Returns the cells that nothing filled and that have no
  /// reason, and the ops that no program has.
  std::vector<std::string> print() const;
  /// Whether some program has each op that passes make for layouts.
  bool hasOpsOfLayouts() const;
  /// The graph ops that the generator has no entry for.
  static std::vector<std::string> findUnknownOps(mlir::MLIRContext &context);

private:
  struct Cell {
    int64_t count = 0;
    /// Some op of this kind and role could have it; else why none can.
    bool isPossible = false;
    std::string reason;
  };
  using Row = std::array<Cell, numAspects>;

  void recordOp(graph::GraphOp op);

  std::map<std::pair<std::string, std::string>, Row> rows;
  std::map<std::string, int64_t> ops;
};

} // namespace polyrank::test
