// Decides which values of a function share a buffer.

#pragma once

#include "compiler/lowering/CommandLiveness.h"
#include "dialects/rank/Aliasing.h"

namespace polyrank::lowering {

/// The place of a value inside the buffer of its class. It lies at `offset`;
/// with `stride`, `stride` bytes further for each microbatch, and with `slots`
/// at the first place again after `slots` microbatches; with `axes`, `step`
/// bytes further for each index of the device over them; within a loop, `each`
/// bytes further in each iteration.
struct Place {
  int buffer = -1;
  int64_t offset = 0, size = 0, stride = 0, slots = 0, step = 0;
  rank::AxesAttr axes = {};
  int64_t each = 0;

  /// Returns true if this place and `other` begin at the same byte in each
  /// microbatch and on each device.
  bool beginsLike(const Place &other) const {
    return buffer == other.buffer && offset == other.offset &&
           stride == other.stride && slots == other.slots &&
           step == other.step && axes == other.axes && each == other.each;
  }
  /// Returns true if the place always begins where its buffer does.
  bool isFirst() const {
    return offset == 0 && stride == 0 && each == 0 && !axes;
  }
  /// The device's block, over the axes `over`, of a value at this place that
  /// consists of blocks of `bytes` bytes.
  Place getBlock(rank::AxesAttr over, int64_t bytes) const {
    return {buffer, offset, bytes, stride, slots, bytes, over, each};
  }
  friend bool operator==(const Place &, const Place &) = default;
};

/// The place of the current microbatch's element `part` in a buffer that holds
/// one element after another. With `slots` the buffer has that many elements,
/// used round-robin.
Place getSlotPlace(int buffer, mlir::Value part, int64_t slots);
/// The place of the current iteration's `element` in the value at `whole`,
/// which has one element for each iteration of the loop.
Place getElementPlace(Place whole, mlir::Value element, rank::LoopOp loop);

/// Partitions values into classes: the values of a class share one buffer and
/// are never live at the same position with different contents.
class BufferClasses {
public:
  /// Starts with one class per value, except that these share one: a view or
  /// microbatch slice and what it views; a device's block of an argument and
  /// the argument; a microbatch sum or a carried value, of microbatches or of a
  /// loop, and the result.
  static mlir::FailureOr<BufferClasses> build(mlir::func::FuncOp function);

  Place getPlace(mlir::Value value) const;
  /// The class of a value.
  int find(mlir::Value value) const { return getPlace(value).buffer; }
  int64_t getSize(int buffer) const { return buffers[buffer].size; }
  /// The whole buffer of a class.
  Place getWhole(int buffer) const { return {buffer, 0, getSize(buffer)}; }
  /// Returns true if the class holds an argument, a constant or a coordinate.
  /// Its bytes stay from step to step, so nothing else can use them in between.
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
  /// Says whether the op may write the result to the memory from which it reads
  /// the operand.
  runtime::InPlace getInPlace(mlir::Operation *op, unsigned operand,
                              unsigned result) const {
    return aliasing.get(op, operand, result);
  }

  /// Returns true if class `inner` can lie at `at` in another class: the two
  /// are live at different positions, or meet only where an op reads the one
  /// and may write the other in its place. A stash slot is free for the
  /// microbatch that owns it, whatever waits in the other slots.
  bool canPlace(int inner, const Place &at) const;
  /// Makes `inner` a part of the class where it is placed.
  void place(int inner, const Place &at);
  /// The same for two classes that begin at the same place; merge returns the
  /// merged class.
  bool canMerge(int left, int right) const {
    return canPlace(right, Place{left});
  }
  int merge(int left, int right);

  /// Inserts a copy of `value` before `op`, in a class of its own. `phase`
  /// orders copies before the same op: those of phase 0 come before those of
  /// phase 1.
  mlir::Value insertCopy(mlir::Value value, mlir::Operation *op, int phase);

private:
  struct Buffer {
    int parent;
    int64_t size = 0;
    bool persistent = false;
    llvm::SmallVector<mlir::Value> values;
  };

  explicit BufferClasses(mlir::func::FuncOp function)
      : liveness(function), aliasing(function) {}
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
  rank::Aliasing aliasing;
  rank::MicrobatchesOp microbatches;
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, Place> places;
};

using runtime::InPlace;

} // namespace polyrank::lowering
