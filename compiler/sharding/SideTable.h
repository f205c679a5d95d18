// What a program is to propagation: a graph of nodes and values.
//
// The program is a graph of *nodes*: its ops, and what ties values together
// without an op: a parameter with its state and their results, an input, what a
// region takes, sums and carries. Each has a sharding rule. The mesh axes that
// constraints name are cut into *atoms*, which do not overlap.

#pragma once

#include <string>
#include <vector>

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::sharding {

/// A layout that somebody fixed.
struct Constraint {
  /// As the user wrote it.
  std::string text;
  /// How important it is; 0 is the most. Each priority that the user gave is up
  /// to two levels, first that of its parameters, then that of its inputs and
  /// outputs, and levels are numbered without gaps. While constraints are read,
  /// before their number is known, it is the user's priority.
  int level = 0;
  sharding::LayoutAttr layout;
  /// Per dim: whether it may be split further.
  llvm::SmallVector<bool> open;
  /// Whether it is a parameter's, so that every use computes in it.
  bool isParameter = false;
};

struct Use {
  int node;
  unsigned operand;
  /// Null where the use is not one of the IR (the pin of a value).
  mlir::OpOperand *slot;
};

/// A value, or a pinned value: the same SSA value once more, as its users see
/// it after a constraint on it.
struct TensorValue {
  mlir::Value value;
  int def = -1;
  unsigned result = 0;
  llvm::SmallVector<Use> uses;
  /// How often a reshard of it is executed in a step.
  int64_t executions = 1;

  mlir::RankedTensorType getType() const {
    return sharding::withLayout(
        llvm::cast<mlir::RankedTensorType>(value.getType()), nullptr);
  }
};

enum class NodeKind {
  Op,
  /// Constant or iota: each user gets its own, in the layout that it wants.
  Source,
  /// An input, or a parameter with its state and their results.
  Boundary,
  /// A result of the function that is nobody's buffer.
  Output,
  /// An `of`, `sum` or `carry` of graph.microbatches.
  Slice,
  Sum,
  Carry,
  /// A constraint on an op's result.
  Pin,
  /// Layouts that are not ours to choose.
  Fixed
};

struct Node {
  /// Its place in the table.
  int number;
  NodeKind kind;
  mlir::Operation *op = nullptr;
  std::string name;
  /// Tells an argument from others; for the hash.
  std::string identity;
  graph::ShardingRule rule;
  llvm::SmallVector<int> operands, results; // values
  int64_t executions = 1;
  /// Of its structure and of what it computes from, whatever the order of ops.
  uint64_t hash = 0;
  int constraint = -1;
  /// Whether it depends on gradients. What is done once a step is split where
  /// that moves fewer bytes, not wherever an axis reaches it.
  bool isUpdate = false;
  /// Fixed: as given.
  llvm::SmallVector<sharding::LayoutAttr> fixedOperands, fixedResults;
};

/// The nodes and values of a program, in its order, and the atoms.
struct SideTable {
  MeshAttr mesh;
  std::vector<Node> nodes;
  std::vector<TensorValue> values;
  std::vector<Constraint> constraints;
  /// The constraint to which Fixed nodes owe their layouts, or -1.
  int outside = -1;
  /// The value that users of an SSA value see, as its last use does.
  llvm::DenseMap<mlir::Value, int> current;
  llvm::SmallVector<AxisRef> atoms;
  /// Per atom: its position among those that split one factor.
  llvm::SmallVector<int> order;

  /// The atoms that `axes` are made of, by number.
  llvm::SmallVector<int> numbers(llvm::ArrayRef<AxisRef> axes) const;
};

/// Reads a function with its constraints (`sharding.constraint` of arguments
/// and ops). Emits an error where it cannot be propagated through.
mlir::FailureOr<SideTable> readFunction(MeshAttr mesh,
                                        mlir::func::FuncOp function);

/// Reads ops without layouts, whose operands are each other's results or have
/// layouts. `wanted`: the layouts in which others use results of them;
/// `reason`: the constraint that these come from, in the user's words.
mlir::FailureOr<SideTable>
readParts(MeshAttr mesh, llvm::ArrayRef<mlir::Operation *> ops,
          const llvm::MapVector<mlir::Value, LayoutAttr> &wanted,
          llvm::StringRef reason = "");

} // namespace polyrank::sharding
