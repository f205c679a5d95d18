// When each value of a rank's program is needed.

#pragma once

#include "compiler/lowering/BufferPacking.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::lowering {

/// Positions number the commands of a function with the microbatches' `first`
/// and `rest` blocks between prologue and update, `rest` once: what it needs
/// from outside is live in all of it, so unrolled microbatches need no more. An
/// op reads and writes at its position.
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
  /// The same where `other` is the only value that may take its place: an
  /// operand of a collective is used by this until it starts to write `other`.
  Lifetime getBeside(mlir::Value value, mlir::Value other) const {
    return get(value, getCollective(other));
  }

  /// Takes note of an op that was inserted before `op`: those of phase 0 come
  /// before those of phase 1.
  void insert(mlir::Operation *inserted, mlir::Operation *op, int phase);

private:
  void number(mlir::Block &block);
  /// The collective that writes the value, directly or until a wait.
  static mlir::Operation *getCollective(mlir::Value value);
  /// But for the wait for `collective`.
  Lifetime get(mlir::Value value, mlir::Operation *collective) const;

  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Block *, Lifetime> blocks;
  std::vector<mlir::Operation *> opsByPosition;
  int64_t next = 0;
};

} // namespace polyrank::lowering
