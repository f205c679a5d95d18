// Which ops of a block become one kernel.

#pragma once

#include <limits>
#include <optional>

#include "compiler/codegen/Measures.h"
#include "llvm/ADT/SetVector.h"

namespace polyrank::codegen {

/// Whether kernels compute this op: all of `graph` but matmul, regions,
/// symbols, and constants that are not splats.
bool isKernelOp(mlir::Operation *op);
/// Whether the op costs nothing inside a kernel, so that each kernel that needs
/// it has its own: constants, iota, broadcast and reshape.
bool isFree(mlir::Operation *op);

/// Ops that become one kernel.
struct Group {
  /// In the order of the block. Free ops are not listed: they come along.
  llvm::SmallVector<mlir::Operation *> ops;
  /// What the kernel takes and gives.
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// Partitions the kernel ops of a block. Every value that an op outside needs
/// is an output of exactly one group, or a free op that the caller places. The
/// groups and all other ops can be put into an order, and collectives keep
/// theirs.
///
/// Greedy in the order of the block: an op joins a group that computes one of
/// its operands, or reads the same values, where one kernel of the target
/// computes both, no more elements are read one by one than before, and no op
/// outside stands between. Where it cannot join, it computes a cheap operand
/// again rather than read it from memory.
class Grouping {
public:
  Grouping(mlir::Block &block, target::TargetInterface target, bool fuse);

  std::vector<Group> groups;
  /// Free ops whose values ops outside of kernels need.
  llvm::SetVector<mlir::Operation *> placed;

  /// Inputs of a kernel of `ops`: operands that are neither computed by them
  /// nor by free ops. A reshape of a value from outside is an input itself,
  /// since outside it is only a view; so is a stored one.
  llvm::SmallVector<mlir::Value>
  inputsOf(llvm::ArrayRef<mlir::Operation *> ops);

private:
  struct Candidate {
    llvm::SmallVector<mlir::Operation *> ops; // by position
    bool isAlive = true;
  };

  void findDead();
  void findStored();
  /// Whether a value comes out of the kernel of `members`.
  bool isInside(mlir::Value value,
                const llvm::DenseSet<mlir::Operation *> &members);
  void number();
  void assign(int group);
  bool tryMerge(int a, int b);
  bool canMerge(int a, int b);
  /// Whether one of `ops` reads a stored reshape of what another computes: no
  /// kernel reads what it writes.
  bool readsOwnStored(llvm::ArrayRef<mlir::Operation *> ops);
  /// No op outside of both uses one and is used by the other.
  bool isConvex(int a, int b);
  void joinInOrder(int a, int b);
  llvm::SmallVector<int> relatedGroups(int group);
  llvm::SmallVector<mlir::Operation *>
  unite(llvm::ArrayRef<mlir::Operation *> x,
        llvm::ArrayRef<mlir::Operation *> y);
  void recomputeCheapInputs(int group);
  void finish();

  /// Results that others than `groups`, whose ops these are, read.
  llvm::SmallVector<mlir::Value>
  outputsOf(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<int> groups);
  /// Whether a group that does not compute `value`, a result of `producer`,
  /// reads it, `groups` left out; or an op outside.
  bool isNeededOutside(mlir::Value value, mlir::Operation *producer,
                       llvm::ArrayRef<int> groups);
  /// Whether `group` reads a result of `producer`.
  bool uses(int group, mlir::Operation *producer);
  bool tryExtend(int group, llvm::ArrayRef<mlir::Operation *> extended);
  bool hasLoops(int group);
  /// A node is a group (its number) or an op outside of groups.
  int outsideNode(mlir::Operation *op) { return -1 - position[op]; }
  llvm::SmallVector<int> usersOf(int node);
  std::optional<llvm::DenseSet<int>> nodesBetween(int first, int last);
  /// Ops, of groups or outside, that use results of the ops.
  void forEachUser(llvm::ArrayRef<mlir::Operation *> ops,
                   llvm::function_ref<void(mlir::Operation *)> visit);

  mlir::Block &block;
  Measures measures;
  /// Kernel ops that no op outside needs.
  llvm::DenseSet<mlir::Operation *> dead;
  /// Reshapes of free ops that lie in memory, because an op that uses them
  /// cannot compute them within its loops.
  llvm::DenseSet<mlir::Operation *> stored;
  llvm::DenseMap<mlir::Operation *, int> position;
  std::vector<mlir::Operation *> opAt;
  /// Ops outside of kernels keep their order.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> nextOutside;
  /// The group that gives an op's results to others, and all that compute it.
  llvm::DenseMap<mlir::Operation *, int> owner;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int, 1>> holders;
  std::vector<Candidate> candidates;
  /// All nodes in an order in which each comes after what it uses; where two
  /// have become one, `noNode` is left.
  static constexpr int noNode = std::numeric_limits<int>::min();
  std::vector<int> order;
  llvm::DenseMap<int, int> rank; // place in `order`
};

} // namespace polyrank::codegen
