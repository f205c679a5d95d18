// Propagation of layouts, in a side table over the values of a program.
//
// The program is a graph of *nodes*: its ops, and what ties values together
// without an op: a parameter with its state and their results, an input, what a
// region takes, sums and carries. Each has a sharding rule. The mesh axes that
// constraints name are cut into *atoms*, which do not overlap. Then
//
//  1. extend (Extension.cpp): from each constraint, in order of priority, its
//     atoms spread along factors, through every node that could be split there.
//     In one priority the constraints on parameters come first: where a weight
//     decides how an op computes, sequence parallelism around it does not. A
//     node that an atom reaches at one level is not reached again at a less
//     important one. This says what *may* be split, and is the same for any
//     order of ops.
//  2. enumerate (Labels.cpp): per node the *labels*, that is the layouts of its
//     operands and results in which each atom splits one factor that it
//     reaches, or passes as a partial, or is replicated. Labels that leave an
//     atom unused which reaches the node violate its priority.
//  3. solve (Solution.cpp): one label per node, so that the objective is least.
//     Where the producer of a value and its users disagree the value is
//     resharded, at the bytes that the reshard planner finds; layouts that
//     several users want are made once.
//  4. write (WriteLayouts.cpp): types and sharding.reshard ops.

#pragma once

#include <map>
#include <numeric>
#include <tuple>

#include "compiler/cost/ReshardPlanner.h"
#include "compiler/sharding/Elimination.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::sharding {

/// A layout that somebody fixed.
struct Constraint {
  /// As the user wrote it.
  std::string text;
  /// Its priority at first, then its position among those in use, where in
  /// each priority the parameters come before inputs and outputs; 0 is the most
  /// important.
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

/// What a node does with one atom.
struct Choice {
  enum Kind { None, Split, Pass } kind = None;
  /// Split: the factor.
  int factor = -1;
  /// Pass: the kind of partial, and the operands that are partial.
  sharding::ReductionKind reduction = sharding::ReductionKind::Sum;
  uint32_t operands = 0;
};

struct Label {
  llvm::SmallVector<Choice, 2> choices; // per atom
  /// What the node takes and gives. An operand's undefined fill is no demand.
  llvm::SmallVector<sharding::LayoutAttr, 3> operands, results;
  /// Splits a composite factor: the op is to be decomposed.
  bool composite = false;
  /// All but bytes.
  Objective cost;
};

struct Node {
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
  /// Fixed: as given.
  llvm::SmallVector<sharding::LayoutAttr> fixedOperands, fixedResults;
  /// Per factor: depends on nothing that is split, so it follows its users.
  llvm::SmallVector<bool> isFree;

  struct Reach {
    int factor;
    /// The constraint that it comes from, and over how many nodes.
    int constraint, distance;
  };
  /// Per atom: the level at which it was reached (-1: never), and where.
  llvm::SmallVector<int> level;
  llvm::SmallVector<llvm::SmallVector<Reach, 2>> reached;
  bool reaches(int atom, int factor) const {
    return llvm::any_of(reached[atom], [&](const Reach &reach) {
      return reach.factor == factor;
    });
  }

  llvm::SmallVector<Label, 0> labels;
};

/// A positive fraction in lowest terms.
struct Ratio {
  int64_t numerator = 1, denominator = 1;

  Ratio() = default;
  Ratio(int64_t above, int64_t below) {
    int64_t common = std::gcd(above, below);
    numerator = above / common;
    denominator = below / common;
  }
  Ratio inverse() const { return Ratio(denominator, numerator); }
  Ratio operator*(const Ratio &other) const {
    Ratio left(numerator, other.denominator),
        right(other.numerator, denominator);
    return Ratio(left.numerator * right.numerator,
                 left.denominator * right.denominator);
  }
  bool operator<(const Ratio &other) const {
    return numerator * other.denominator < other.numerator * denominator;
  }
};

struct Solution {
  /// Per node.
  std::vector<int> labels;
  Objective objective, bound;
};

class Propagation {
  using AxisRef = sharding::AxisRef;
  using LayoutAttr = sharding::LayoutAttr;

public:
  explicit Propagation(sharding::MeshAttr mesh);

  /// Reads a function with its constraints (`sharding.layout` of arguments,
  /// `sharding.constraint` of ops).
  mlir::LogicalResult readFunction(mlir::func::FuncOp function);
  /// Reads ops without layouts, whose operands are each other's results or have
  /// layouts. `wanted`: the layouts in which others use results of them;
  /// `reason`: the constraint that these come from, in the user's words.
  mlir::LogicalResult
  readParts(llvm::ArrayRef<mlir::Operation *> ops,
            const llvm::MapVector<mlir::Value, sharding::LayoutAttr> &wanted,
            llvm::StringRef reason = "");

  /// All of it, once the table is read: extends, enumerates and solves, until
  /// no extent is larger than the solution needs. An error is emitted where
  /// something cannot be laid out.
  mlir::FailureOr<Solution> solveLayouts();

  // Its steps, for tests.
  void extend();
  mlir::LogicalResult enumerate();
  Solution solve();
  /// The objective of one label per node.
  Objective evaluate(llvm::ArrayRef<int> labels);
  /// What moving `value` adds to it.
  Objective evaluateValue(const TensorValue &value, llvm::ArrayRef<int> labels);
  /// Gives one node at a time the label that costs least beside the others',
  /// until that improves nothing.
  void improve(std::vector<int> &labels);
  /// Sets the types of all values and inserts reshards.
  mlir::LogicalResult write(const Solution &solution);

  /// After write(): the value that has the layout in which `value` is wanted
  /// (readParts).
  mlir::Value getSupplied(mlir::Value value) const;

  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  llvm::ArrayRef<AxisRef> getAtoms() const { return atoms; }
  llvm::ArrayRef<Constraint> getConstraints() const { return constraints; }
  sharding::MeshAttr getMesh() const { return mesh; }
  /// Smaller extents where the solution needs less padding than all that could
  /// be split does; labels have to be enumerated again then.
  bool tightenExtents(const Solution &solution);

private:
  // SideTable.cpp
  int addValue(mlir::Value value, int node, unsigned result,
               int64_t executions);
  int addNode(NodeKind kind, mlir::Operation *op, std::string name,
              int64_t executions);
  void addUse(int node, mlir::OpOperand &slot);
  void addUse(int node, mlir::Value value, mlir::OpOperand *slot);
  mlir::LogicalResult readBlock(mlir::Block &block, int64_t executions);
  mlir::LogicalResult readMicrobatches(graph::MicrobatchesOp op,
                                       int64_t executions);
  mlir::LogicalResult readOp(mlir::Operation *op, int64_t executions);
  mlir::LogicalResult readArguments(mlir::func::FuncOp function);
  mlir::LogicalResult readReturn(mlir::func::FuncOp function,
                                 mlir::func::ReturnOp op);
  void pin(mlir::Operation *op, int64_t executions);
  mlir::LogicalResult finishTable(mlir::Operation *where);
  void hashNode(Node &node);
  /// The atoms that `axes` are made of, by number.
  llvm::SmallVector<int> numbers(llvm::ArrayRef<AxisRef> axes) const;

  // Extension.cpp
  bool canSplit(const Node &node, int factor, int atom) const;
  void reach(int node, int factor, int atom, int level, int constraint,
             int distance);
  void findFreeFactors();
  void findPartials();
  /// The same dim of a value at its def and at a user.
  struct Link {
    /// By which links are ordered: not 1, the ratio, and the value's place.
    std::tuple<bool, int64_t, int64_t, uint64_t, uint64_t, unsigned, unsigned,
               size_t>
        place;
    int given, taken; // items
    Ratio step;       // extent taken = step * extent given
  };
  std::vector<Link> findLinks();
  void findExtents();
  bool setUnits(const llvm::DenseMap<int, int64_t> &blocks,
                llvm::ArrayRef<char> split);
  int64_t getExtent(int node, int factor) const;

  // Labels.cpp
  std::optional<Label> makeLabel(const Node &node,
                                 llvm::ArrayRef<Choice> choices) const;
  void setCost(const Node &node, Label &label) const;
  /// What the parts of a composite move, laid out for this label; nullopt where
  /// they cannot be, so that the label is none.
  std::optional<int64_t> getCompositeBytes(const Node &node,
                                           const Label &label);
  llvm::SmallVector<Choice> choicesOf(const Node &node, int atom) const;

  // Solution.cpp
  int64_t getBytes(mlir::RankedTensorType type, LayoutAttr from, LayoutAttr to);
  /// The cheapest way to make all of `wanted` from `from`: for each the one
  /// that it is made of (-1: `from`), in an order in which that is possible.
  struct Making {
    int64_t bytes = 0;
    llvm::SmallVector<std::pair<int, int>> steps; // (wanted, parent)
  };
  Making make(mlir::RankedTensorType type, LayoutAttr from,
              llvm::ArrayRef<LayoutAttr> wanted);
  int64_t getValueBytes(const TensorValue &value, LayoutAttr from,
                        llvm::ArrayRef<LayoutAttr> wanted);

  friend class Writer;

  sharding::MeshAttr mesh;
  llvm::SmallVector<Node, 0> nodes;
  llvm::SmallVector<TensorValue, 0> values;
  llvm::SmallVector<Constraint> constraints;
  /// The constraint to which Fixed nodes owe their layouts, or -1.
  int outside = -1;
  /// The value that users of an SSA value see so far.
  llvm::DenseMap<mlir::Value, int> current;
  llvm::SmallVector<AxisRef> atoms;
  /// Per atom: its position among those that split one factor.
  llvm::SmallVector<int> order;
  /// Per value and atom: the kinds of partial that it may be, as bits.
  llvm::SmallVector<llvm::SmallVector<uint8_t>, 0> partials;
  /// The factors of all nodes in classes, and the extent of each: its ratio
  /// times the unit of its class.
  llvm::SmallVector<int, 0> firstFactor, classOf;
  llvm::SmallVector<Ratio, 0> ratios;
  llvm::DenseMap<int, Ratio> units;
  /// Classes whose extent a closed neighbour has chosen.
  llvm::DenseSet<int> closedExtents;
  /// Per Fixed node without an op's operand: what it got.
  llvm::DenseMap<int, mlir::Value> supplied;
  cost::ReshardPlanner planner;
  llvm::DenseMap<std::tuple<mlir::Type, LayoutAttr, LayoutAttr>, int64_t> bytes;
  /// By the composite and its layouts, as text.
  std::map<std::string, std::optional<int64_t>> compositeBytes;
};

/// The layout without what its padding holds.
sharding::LayoutAttr withoutFill(sharding::LayoutAttr layout);

} // namespace polyrank::sharding
