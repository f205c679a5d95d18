// Lifetimes of the values of a rank's program.

#pragma once

#include "compiler/lowering/BufferPacking.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::lowering {

/// Positions number the commands of a function in order, with the segments of
/// microbatches one after another between prologue and update. A segment that
/// runs several times is numbered once: whatever its runs need from outside, or
/// leave for a later run, is live in all of it, so unrolled microbatches need
/// no more. A loop op comes after its body, which is numbered once. An op reads
/// and writes at its position.
class CommandLiveness {
public:
  explicit CommandLiveness(mlir::func::FuncOp function);

  int64_t getPosition(mlir::Operation *op) const { return positions.at(op); }
  /// Null at a position without an op.
  mlir::Operation *getOp(int64_t position) const {
    return opsByPosition[position];
  }
  /// The positions from the value's definition to its last use. The operands of
  /// a collective that is started are in use until its wait.
  Lifetime get(mlir::Value value) const { return get(value, {}); }
  /// Additional lifetimes. For the stacks of a loop, its body. For a value that
  /// microbatches hand on, the whole segments during which it waits for a later
  /// run or for the end of the loop. (In the segments that make or read it, its
  /// lifetime is that of the values that they yield, and of their arguments.)
  llvm::ArrayRef<Lifetime> getPassed(mlir::Value value) const {
    auto found = passed.find(value);
    return found == passed.end() ? llvm::ArrayRef<Lifetime>() : found->second;
  }
  /// The same if `other` is the only value that may take its place: a
  /// collective then uses an operand only until it begins to write `other`.
  Lifetime getBeside(mlir::Value value, mlir::Value other) const {
    return get(value, getCollective(other));
  }

  /// Records an op that was inserted before `op` (before the first iteration if
  /// `op` is a loop): ops of phase 0 come before those of phase 1.
  void insert(mlir::Operation *inserted, mlir::Operation *op, int phase);

private:
  void number(mlir::Block &block);
  /// The collective that writes the value, either directly or until a wait.
  static mlir::Operation *getCollective(mlir::Value value);
  void followRuns(rank::MicrobatchesOp loop);
  llvm::SmallVector<Lifetime> findPassed(rank::MicrobatchesOp loop,
                                         unsigned result) const;
  int64_t getEndOfInitial(rank::MicrobatchesOp loop, unsigned result,
                          mlir::Operation *collective) const;
  /// The lifetime without the use by the wait for `collective`.
  Lifetime get(mlir::Value value, mlir::Operation *collective) const;

  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  /// The position where a loop begins and takes over the values that its
  /// iterations carry; the loop op itself comes after its body.
  llvm::DenseMap<mlir::Operation *, int64_t> entries;
  llvm::DenseMap<mlir::Block *, Lifetime> blocks;
  std::vector<mlir::Operation *> opsByPosition;
  /// For a segment, the end of the segments that run before its last run, or -1
  /// if there are none. What the segment reads from outside is live until
  /// there.
  llvm::DenseMap<mlir::Operation *, int64_t> endsBeforeLastRun;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Lifetime>> passed;
  int64_t next = 0;
};

} // namespace polyrank::lowering
