// When each value of a rank's program is needed.

#pragma once

#include "compiler/lowering/BufferPacking.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::lowering {

/// Positions number the commands of a function, the segments of microbatches
/// one behind the other between prologue and update. A segment that runs
/// several times stands there once: what its runs need from outside, and what
/// waits for a later run, is live in all of it, so unrolled microbatches need
/// no more. A loop stands behind its body, which is there once. An op reads and
/// writes at its position.
class CommandLiveness {
public:
  explicit CommandLiveness(mlir::func::FuncOp function);

  int64_t getPosition(mlir::Operation *op) const { return positions.at(op); }
  /// Null where no op stands.
  mlir::Operation *getOp(int64_t position) const {
    return opsByPosition[position];
  }
  /// From where the value appears to its last use. The operands of a collective
  /// that is started are used until its wait.
  Lifetime get(mlir::Value value) const { return get(value, {}); }
  /// Of a loop's stacks: its body. Of what microbatches hand on: the segments
  /// during which it waits for a later run, or for the end of the loop, whole
  /// ones. (In those that make or read it it lives as the values that they
  /// yield, and as their arguments.)
  llvm::ArrayRef<Lifetime> getPassed(mlir::Value value) const {
    auto found = passed.find(value);
    return found == passed.end() ? llvm::ArrayRef<Lifetime>() : found->second;
  }
  /// The same where `other` is the only value that may take its place: an
  /// operand of a collective is used by this until it starts to write `other`.
  Lifetime getBeside(mlir::Value value, mlir::Value other) const {
    return get(value, getCollective(other));
  }

  /// Takes note of an op that was inserted before `op`, of a loop before its
  /// first iteration: those of phase 0 come before those of phase 1.
  void insert(mlir::Operation *inserted, mlir::Operation *op, int phase);

private:
  void number(mlir::Block &block);
  /// The collective that writes the value, directly or until a wait.
  static mlir::Operation *getCollective(mlir::Value value);
  void followRuns(rank::MicrobatchesOp loop);
  llvm::SmallVector<Lifetime> findPassed(rank::MicrobatchesOp loop,
                                         unsigned result) const;
  int64_t getEndOfInitial(rank::MicrobatchesOp loop, unsigned result,
                          mlir::Operation *collective) const;
  /// But for the wait for `collective`.
  Lifetime get(mlir::Value value, mlir::Operation *collective) const;

  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  /// Of a loop, which stands behind its body: where it begins, and takes over
  /// the values that its iterations carry on.
  llvm::DenseMap<mlir::Operation *, int64_t> entries;
  llvm::DenseMap<mlir::Block *, Lifetime> blocks;
  std::vector<mlir::Operation *> opsByPosition;
  /// Of a segment: the end of the segments that run before its last run. What
  /// it reads from outside is live that long. -1 where there is none.
  llvm::DenseMap<mlir::Operation *, int64_t> endsBeforeLastRun;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Lifetime>> passed;
  int64_t next = 0;
};

} // namespace polyrank::lowering
