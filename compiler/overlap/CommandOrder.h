// An order of the commands of a range, with moves that keep it valid and do not
// increase its memory.

#pragma once

#include "compiler/overlap/Timeline.h"

namespace polyrank::overlap {

/// The commands [begin, end) of one block. A command is identified by its
/// number in the original order; a position is an index in the current order.
class CommandOrder {
public:
  CommandOrder(mlir::Block::iterator begin, mlir::Block::iterator end,
               const Durations &durations);

  int size() const { return ops.size(); }
  mlir::Operation *getOp(int command) const { return ops[command]; }
  int at(int position) const { return order[position]; }
  int getPosition(int command) const { return positions[command]; }
  /// The duration of a command that computes; 0 for views and collectives.
  int64_t getWork(int command) const { return work[command]; }
  bool isView(int command) const;

  /// The commands before, or after, a command in every valid order: the
  /// producers of its operands, and the readers of values that it may
  /// overwrite.
  llvm::ArrayRef<int> getBefore(int command) const { return before[command]; }
  llvm::ArrayRef<int> getAfter(int command) const { return after[command]; }

  /// The position where a collective can start: after the producers of its
  /// operands.
  int getStart(int collective) const;
  /// The position where the collective's results are needed; size() if nothing
  /// in the range uses them.
  int getNeed(int collective) const;

  /// Returns true if the collective is started as late as possible: a gather
  /// for a use in the range.
  bool isPrefetched(int collective) const;

  /// Moves a command to just after the one at position `to`, which is after its
  /// own, or to just before the one at `to`. Returns false and changes nothing
  /// if more than `getLimit` bytes would be live at once.
  bool moveBack(int command, int to);
  bool moveForward(int command, int to);

  /// The peak of the bytes that values of the range take, in the original order
  /// and in the current one.
  int64_t getLimit() const { return limit; }
  int64_t getPeak() const;

  /// The makespan if reductions start as soon as their operands are there, and
  /// gathers cost nothing because they are prefetched.
  int64_t getMakespan() const;

  /// Moves the ops of the block into the current order.
  void apply(mlir::Block::iterator end) const;

private:
  struct Buffer {
    int64_t bytes = 0;
    llvm::SmallVector<int, 4> users; // with the command that defines it
    bool outlives = false;
  };

  void findDependences();
  void findBuffers();
  void addEdge(int first, int second);
  int getLastUse(const Buffer &buffer, int but) const;
  llvm::SmallVector<int64_t> getLive() const;

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, int> numbers;
  std::vector<int64_t> work, communication;
  std::vector<uint32_t> queues; // Queues::get
  std::vector<llvm::SmallVector<int, 4>> before, after;
  std::vector<int> order, positions;
  std::vector<Buffer> buffers;
  /// By command: the buffers that it touches.
  std::vector<llvm::SmallVector<int, 4>> buffersOf;
  /// By command: of these, the buffers that it defines.
  std::vector<llvm::SmallVector<int, 2>> made;
  llvm::SmallVector<int64_t> live; // by position
  int64_t limit = 0;
};

} // namespace polyrank::overlap
