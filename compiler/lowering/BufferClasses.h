// Which values of a function share a buffer.

#pragma once

#include "compiler/lowering/CommandLiveness.h"
#include "dialects/rank/InPlaceWays.h"

namespace polyrank::lowering {

/// Where a value lies inside its class's buffer; with `stride`, so much further
/// for each microbatch, and with `slots` at the first place again after so many
/// of them; with `axes`, `step` further for each index of the device over them;
/// within a loop, `each` further in each iteration.
struct Place {
  int buffer = -1;
  int64_t offset = 0, size = 0, stride = 0, slots = 0, step = 0;
  rank::AxesAttr axes = {};
  int64_t each = 0;

  /// Whether what lies here begins where what lies there does, in each
  /// microbatch and on each device.
  bool beginsLike(const Place &other) const {
    return buffer == other.buffer && offset == other.offset &&
           stride == other.stride && slots == other.slots &&
           step == other.step && axes == other.axes && each == other.each;
  }
  /// Whether it begins where its buffer does, everywhere and always.
  bool isFirst() const {
    return offset == 0 && stride == 0 && each == 0 && !axes;
  }
  /// The device's block, over `axes`, of what lies here in blocks of `bytes`.
  Place getBlock(rank::AxesAttr over, int64_t bytes) const {
    return {buffer, offset, bytes, stride, slots, bytes, over, each};
  }
  friend bool operator==(const Place &, const Place &) = default;
};

/// Of a buffer that holds one element after another, where the microbatch's is:
/// `part`. With `slots` there are so many of them, used in turn.
Place getSlotPlace(int buffer, mlir::Value part, int64_t slots);
/// Of what lies at `whole` and has an element for each iteration of the loop,
/// where the iteration's is: `element`.
Place getElementPlace(Place whole, mlir::Value element, rank::LoopOp loop);

/// Values in classes: the values of a class share one buffer and are never live
/// at the same position with different contents.
class BufferClasses {
public:
  /// One class per value, but views and microbatch slices are in the class of
  /// what they view, as is a device's block of an argument, and a microbatch
  /// sum or carried value, of microbatches or of a loop, is in the class of the
  /// result.
  static mlir::FailureOr<BufferClasses> build(mlir::func::FuncOp function);

  Place getPlace(mlir::Value value) const;
  /// The class of a value.
  int find(mlir::Value value) const { return getPlace(value).buffer; }
  int64_t getSize(int buffer) const { return buffers[buffer].size; }
  /// All of a class's buffer.
  Place getWhole(int buffer) const { return {buffer, 0, getSize(buffer)}; }
  /// Whether the class holds an argument, a constant or a coordinate, whose
  /// bytes stay from step to step and so serve nobody else in between.
  bool isPersistent(int buffer) const { return buffers[buffer].persistent; }
  /// The values of a class.
  llvm::ArrayRef<mlir::Value> getValues(int buffer) const {
    return buffers[buffer].values;
  }
  /// All classes.
  llvm::SmallVector<int> getClasses() const;
  /// Sorted and disjoint.
  llvm::SmallVector<Lifetime> getLifetimes(int buffer) const;
  int64_t getPosition(mlir::Operation *op) const {
    return liveness.getPosition(op);
  }
  rank::MicrobatchesOp getMicrobatches() const { return microbatches; }
  /// Whether the op may write the result where it reads the operand.
  runtime::InPlace getInPlace(mlir::Operation *op, unsigned operand,
                              unsigned result) const {
    return ways.get(op, operand, result);
  }

  /// Whether class `inner` can lie at `at` in another one: they are live apart,
  /// or meet only where an op reads the one and may write the other in its
  /// place. A slot of a stash is free for the microbatch that gives it,
  /// whatever waits in the others.
  bool canPlace(int inner, const Place &at) const;
  /// `inner` becomes a part of the class where it is placed.
  void place(int inner, const Place &at);
  /// The same for two classes that begin at one place; merge returns it.
  bool canMerge(int left, int right) const {
    return canPlace(right, Place{left});
  }
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

  explicit BufferClasses(mlir::func::FuncOp function)
      : liveness(function), ways(function) {}
  mlir::LogicalResult collect(mlir::Block &block);
  mlir::LogicalResult collectLoop(rank::LoopOp loop);
  void define(mlir::Value value);
  void alias(mlir::Value value, mlir::Value of, int64_t offset,
             int64_t stride = 0, int64_t slots = 0);
  bool meetWhilePassed(mlir::Value left, mlir::Value right,
                       const Place &at) const;
  bool aliasView(mlir::OpResult result, const rank::View &view);
  int root(int buffer) const;
  Place getPlaceIn(mlir::Value value, const Place &at) const;
  bool meetInPlace(int read, int written, int inner, const Place &at,
                   int64_t position) const;

  CommandLiveness liveness;
  rank::InPlaceWays ways;
  rank::MicrobatchesOp microbatches;
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, Place> places;
};

using runtime::InPlace;

} // namespace polyrank::lowering
