// The side table: a program as propagation sees it.
//
// The program is a graph of *nodes*: its ops, and nodes that tie values
// together without an op: a parameter with its state and their results, an
// input, an operand of a microbatch region, sums and carries. Each has a
// sharding rule. The mesh axes that constraints name are cut into *sub-axes*,
// which do not overlap.

#pragma once

#include <string>
#include <vector>

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::sharding {

/// A layout that the user or the program's surroundings fixed.
struct Constraint {
  /// The text, as the user wrote it.
  std::string text;
  /// Importance; 0 is the most important. Each priority that the user gave is
  /// up to two levels: first its parameters, then its inputs and outputs.
  /// Levels are numbered without gaps. While constraints are being read this is
  /// the user's priority.
  int level = 0;
  sharding::LayoutAttr layout;
  /// Per dim: true if it may be split further.
  llvm::SmallVector<bool> open;
  /// True for a constraint on a parameter: every use computes in its layout.
  bool isParameter = false;
};

struct Use {
  int node;
  unsigned operand;
  /// Null for a use that is not in the IR (the pin of a value).
  mlir::OpOperand *slot;
};

/// A value, or a pinned value: the same SSA value once more, as its users see
/// it after a constraint on it.
struct TensorValue {
  mlir::Value value;
  int def = -1;
  unsigned result = 0;
  llvm::SmallVector<Use> uses;
  /// How often a step executes a reshard of the value.
  int64_t executions = 1;

  mlir::RankedTensorType getType() const {
    return sharding::withLayout(
        llvm::cast<mlir::RankedTensorType>(value.getType()), nullptr);
  }
};

enum class NodeKind {
  Op,
  /// A constant or iota: each user gets a copy, in the layout that it wants.
  Source,
  /// An input, or a parameter with its state and their results.
  Boundary,
  /// A result of the function that replaces no argument.
  Output,
  /// An `of`, `sum` or `carry` of graph.microbatches.
  Slice,
  Sum,
  Carry,
  /// A constraint on an op's result.
  Pin,
  /// Its layouts are given and not to be chosen.
  Fixed
};

struct Node {
  /// The node's index in the table.
  int number;
  NodeKind kind;
  mlir::Operation *op = nullptr;
  std::string name;
  /// Distinguishes arguments in the hash.
  std::string identity;
  graph::ShardingRule rule;
  llvm::SmallVector<int> operands, results; // values
  int64_t executions = 1;
  /// A hash of the node's structure and of the nodes from which it computes; it
  /// does not depend on the order of ops.
  uint64_t hash = 0;
  int constraint = -1;
  /// True if the node depends on gradients. Such work, done once per step, is
  /// split if that moves fewer bytes, not wherever an axis reaches it.
  bool isUpdate = false;
  /// The given layouts, if the kind is Fixed.
  llvm::SmallVector<sharding::LayoutAttr> fixedOperands, fixedResults;
};

/// The nodes and values of a program, in program order, and the sub-axes.
struct SideTable {
  MeshAttr mesh;
  std::vector<Node> nodes;
  std::vector<TensorValue> values;
  std::vector<Constraint> constraints;
  /// The constraint that causes the layouts of Fixed nodes, or -1.
  int outside = -1;
  /// While reading: the TensorValue that users of an SSA value see; after a
  /// constraint on the value, the pinned one.
  llvm::DenseMap<mlir::Value, int> current;
  llvm::SmallVector<AxisRef> subAxes;
  /// Per sub-axis: its position, major to minor, among sub-axes that split one
  /// factor.
  llvm::SmallVector<int> order;

  /// The numbers of the sub-axes that make up `axes`.
  llvm::SmallVector<int> numbers(llvm::ArrayRef<AxisRef> axes) const;
};

/// Reads a function with its constraints (`sharding.constraint` of arguments
/// and ops). Emits an error if layouts cannot be propagated through it.
mlir::FailureOr<SideTable> readFunction(MeshAttr mesh,
                                        mlir::func::FuncOp function);

/// Reads ops without layouts, whose operands are each other's results or have
/// layouts. `wanted` maps results to the layouts that other users want;
/// `reason` is the constraint behind these layouts, in the user's words.
mlir::FailureOr<SideTable>
readParts(MeshAttr mesh, llvm::ArrayRef<mlir::Operation *> ops,
          const llvm::MapVector<mlir::Value, LayoutAttr> &wanted,
          llvm::StringRef reason = "");

} // namespace polyrank::sharding
