// An order of the commands of a range, which moves keep valid and whose memory
// does not grow.

#pragma once

#include "compiler/overlap/Timeline.h"

namespace polyrank::overlap {

/// The commands [begin, end) of one block. A command is called by its number in
/// the order that it had; positions are those of the order that it has.
class CommandOrder {
public:
  CommandOrder(mlir::Block::iterator begin, mlir::Block::iterator end,
               const Durations &durations);

  int size() const { return ops.size(); }
  mlir::Operation *getOp(int command) const { return ops[command]; }
  int at(int position) const { return order[position]; }
  int getPosition(int command) const { return positions[command]; }
  /// Of what is computed; 0 of views and collectives.
  int64_t getWork(int command) const { return work[command]; }
  bool isView(int command) const;

  /// What stands in front of a command, or behind it, in every valid order:
  /// what it uses, and the readers of what it may overwrite.
  llvm::ArrayRef<int> getBefore(int command) const { return before[command]; }
  llvm::ArrayRef<int> getAfter(int command) const { return after[command]; }

  /// Where a collective can start: behind what computes its operands.
  int getStart(int collective) const;
  /// The position where the results must be there: size() where nothing of the
  /// range uses them.
  int getNeed(int collective) const;

  /// Whether it is started as late as it can be: a gather for a use in the
  /// range.
  bool isPrefetched(int collective) const;

  /// Puts a command behind those up to position `to`, which is behind its own,
  /// or in front of the one at `to`. False, and nothing changes, where more
  /// than `getLimit` would be live at once.
  bool moveBack(int command, int to);
  bool moveForward(int command, int to);

  /// The most bytes that values of the range take at once, in the first order
  /// and in the one that there is.
  int64_t getLimit() const { return limit; }
  int64_t getPeak() const;

  /// How long it takes where reductions start when their operands are there and
  /// gathers cost nothing, since they are prefetched.
  int64_t getMakespan() const;

  /// Puts the ops into this order.
  void apply(mlir::Block::iterator end) const;

private:
  struct Buffer {
    int64_t bytes = 0;
    llvm::SmallVector<int, 4> users; // with what defines it
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
  std::vector<llvm::SmallVector<int, 4>> before, after;
  std::vector<int> order, positions;
  std::vector<Buffer> buffers;
  std::vector<llvm::SmallVector<int, 4>> buffersOf; // that a command touches
  std::vector<llvm::SmallVector<int, 2>> made;      // of these, defines
  llvm::SmallVector<int64_t> live;                  // by position
  int64_t limit = 0;
};

} // namespace polyrank::overlap
