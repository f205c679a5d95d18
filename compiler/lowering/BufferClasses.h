// Which values of a function share a buffer, and when each buffer is live.

#pragma once

#include "compiler/lowering/BufferPacking.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::lowering {

/// Where a value lies inside its class's buffer; with `stride`, one microbatch
/// further for each microbatch.
struct Place {
  int buffer = -1;
  int64_t offset = 0, size = 0, stride = 0;
};

/// Values in classes: the values of a class share one buffer and are never live
/// at the same position with different contents. Positions number the commands
/// of a step with the microbatches' `first` and `rest` blocks between prologue
/// and update, `rest` once: what it needs from outside is live in all of it, so
/// unrolled microbatches need no more.
class BufferClasses {
public:
  /// One class per value, but views and microbatch slices are in the class of
  /// what they view, and a microbatch sum or carried value is in the class of
  /// the result.
  static mlir::FailureOr<BufferClasses> build(mlir::func::FuncOp function);

  Place getPlace(mlir::Value value) const;
  /// The class of a value.
  int find(mlir::Value value) const { return getPlace(value).buffer; }
  int64_t getSize(int buffer) const { return buffers[buffer].size; }
  /// Arguments, constants and coordinates: nobody else's in between.
  bool isPersistent(int buffer) const { return buffers[buffer].persistent; }
  /// The values of a class.
  llvm::ArrayRef<mlir::Value> getValues(int buffer) const {
    return buffers[buffer].values;
  }
  /// All classes.
  llvm::SmallVector<int> getClasses() const;
  /// Sorted and disjoint.
  llvm::SmallVector<Lifetime> getLifetimes(int buffer) const;
  int64_t getPosition(mlir::Operation *op) const { return positions.at(op); }
  rank::MicrobatchesOp getMicrobatches() const { return microbatches; }

  /// Whether two classes can become one: they are live apart, or meet only
  /// where an op reads the one and may write the other in its place.
  bool canMerge(int left, int right) const;
  /// `left` and `right` become one; returns it.
  int merge(int left, int right);

  /// A copy of `value` before `op`, in a class of its own. `phase` orders
  /// copies before the same op: those of phase 0 come before those of phase 1.
  mlir::Value insertCopy(mlir::Value value, mlir::Operation *op, int phase);

private:
  struct Buffer {
    int parent;
    int64_t size = 0;
    bool persistent = false;
    llvm::SmallVector<mlir::Value> values;
  };

  mlir::LogicalResult number(mlir::Block &block);
  void define(mlir::Value value);
  void alias(mlir::Value value, mlir::Value of, int64_t offset,
             int64_t stride = 0);
  int root(int buffer) const;
  Lifetime getLifetime(mlir::Value value) const;
  bool meetInPlace(int read, int written, int64_t position) const;

  rank::MicrobatchesOp microbatches;
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Block *, Lifetime> blocks;
  std::vector<mlir::Operation *> opsByPosition;
  int64_t next = 0;
};

/// Whether result `result` of `op` may be written where operand `operand` is
/// read.
bool allowsInPlace(mlir::Operation *op, unsigned operand, unsigned result);

} // namespace polyrank::lowering
