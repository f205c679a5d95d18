// Decides which ops of a block become one kernel.

#pragma once

#include <limits>
#include <optional>

#include "compiler/codegen/Measures.h"
#include "llvm/ADT/SetVector.h"

namespace polyrank::codegen {

/// Returns true if kernels compute this op: all ops of `graph` except matmul,
/// ops with regions, symbols, and constants that are not splats.
bool isKernelOp(mlir::Operation *op);
/// Returns true if the op costs nothing inside a kernel, so that each kernel
/// that needs it computes it itself: constants, iota, broadcast and reshape.
bool isFree(mlir::Operation *op);

/// Ops that become one kernel.
struct Group {
  /// In the order of the block. Free ops are not listed, since each kernel has
  /// its own.
  llvm::SmallVector<mlir::Operation *> ops;
  /// The operands and results of the kernel.
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// Partitions the kernel ops of a block. Every value that an op outside of
/// kernels needs is an output of exactly one group, or the result of a free op
/// that the caller places. The groups and all other ops have a valid order in
/// which collectives keep theirs.
///
/// The algorithm is greedy in the order of the block. An op joins a group that
/// computes one of its operands or reads the same values, if one kernel
/// computes both, the target says that they are better as one, no op outside of
/// both lies between them in the data flow, and none is computed again in the
/// backward. If it cannot join, it
/// recomputes a cheap operand rather than read it from memory.
class Grouping {
public:
  Grouping(mlir::Block &block, target::KernelTarget target, bool fuse);

  std::vector<Group> groups;
  /// Free ops whose results are needed by ops outside of kernels.
  llvm::SetVector<mlir::Operation *> placed;

  /// The inputs of a kernel of `ops`: operands that neither they nor free ops
  /// compute. A reshape of a value from outside is an input itself, since
  /// outside it is only a view; so is a stored reshape.
  llvm::SmallVector<mlir::Value>
  inputsOf(llvm::ArrayRef<mlir::Operation *> ops);

private:
  struct Candidate {
    llvm::SmallVector<mlir::Operation *> ops; // by position
    bool isAlive = true;
  };

  void findDead();
  void findStored();
  /// Returns true if the kernel of `members` computes the value.
  bool isInside(mlir::Value value,
                const llvm::DenseSet<mlir::Operation *> &members);
  void number();
  void assign(int group);
  bool tryMerge(int a, int b);
  bool canMerge(int a, int b);
  /// Returns true if one of `ops` reads a stored reshape of what another
  /// computes; this is not allowed, since no kernel reads what it writes.
  bool readsOwnStored(llvm::ArrayRef<mlir::Operation *> ops);
  /// Returns true if no op outside of both groups uses one and is used by the
  /// other.
  bool isConvex(int a, int b);
  void joinInOrder(int a, int b);
  llvm::SmallVector<int> relatedGroups(int group);
  llvm::SmallVector<mlir::Operation *>
  unite(llvm::ArrayRef<mlir::Operation *> x,
        llvm::ArrayRef<mlir::Operation *> y);
  void recomputeCheapInputs(int group);
  void finish();

  /// Results of `ops`, the ops of `groups`, that other ops read.
  llvm::SmallVector<mlir::Value>
  outputsOf(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<int> groups);
  /// Returns true if `value`, a result of `producer`, is read by an op outside
  /// of groups, or by a group that does not compute it and is not in `groups`.
  bool isNeededOutside(mlir::Value value, mlir::Operation *producer,
                       llvm::ArrayRef<int> groups);
  /// Returns true if `group` reads a result of `producer`.
  bool uses(int group, mlir::Operation *producer);
  bool tryExtend(int group, llvm::ArrayRef<mlir::Operation *> extended);
  bool hasLoops(int group);
  /// A node is a group (its number) or an op outside of groups.
  int outsideNode(mlir::Operation *op) { return -1 - position[op]; }
  llvm::SmallVector<int> usersOf(int node);
  std::optional<llvm::DenseSet<int>> nodesBetween(int first, int last);
  /// Visits the ops, in groups or outside, that use results of `ops`.
  void forEachUser(llvm::ArrayRef<mlir::Operation *> ops,
                   llvm::function_ref<void(mlir::Operation *)> visit);

  mlir::Block &block;
  target::KernelTarget target;
  Measures measures;
  /// Kernel ops that no op outside needs.
  llvm::DenseSet<mlir::Operation *> dead;
  /// Reshapes of free ops that are written to memory, because an op that uses
  /// them cannot compute them within its loops.
  llvm::DenseSet<mlir::Operation *> stored;
  llvm::DenseMap<mlir::Operation *, int> position;
  std::vector<mlir::Operation *> opAt;
  /// Ops outside of kernels keep their order.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> nextOutside;
  /// The group whose outputs include the op's results, and all groups that
  /// compute it.
  llvm::DenseMap<mlir::Operation *, int> owner;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int, 1>> holders;
  std::vector<Candidate> candidates;
  /// All nodes in an order in which each comes after the nodes that it uses;
  /// `noNode` marks the old place of a node that was merged into another.
  static constexpr int noNode = std::numeric_limits<int>::min();
  std::vector<int> order;
  llvm::DenseMap<int, int> rank; // place in `order`
};

} // namespace polyrank::codegen
