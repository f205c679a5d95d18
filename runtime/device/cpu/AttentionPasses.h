// How the backward of attention is divided into passes and tasks.

#pragma once

#include "runtime/device/cpu/AttentionTiles.h"

#include <array>

namespace polyrank::runtime {

/// Which gradients a pass computes.
struct WantedGradients {
  bool queries = false, keys = false, bias = false;
};

/// A pass, and the dims over which its tasks are divided.
struct AttentionPass {
  WantedGradients wanted;
  bool byBatch = true, byGroup = true;
  bool byHead = false; // within its group
  bool byQueries = false, byKeys = false;
};

/// The part that one task computes. Queries and keys are counted in blocks.
struct AttentionBox {
  Range batches, heads, queries, keys;
};

/// One pass that computes all gradients, with five products for each tile, or
/// two, by queries and by keys, with seven products together.
class AttentionPasses {
public:
  explicit AttentionPasses(const AttentionGradShape &whole)
      : whole(whole), shape(whole.forward) {}

  AttentionPass onePass() const;
  std::array<AttentionPass, 2> twoPasses() const;
  /// Returns true if one pass takes at most as long as two on `threads`.
  bool isOneFaster(int threads) const;

  int64_t countTasks(const AttentionPass &pass) const;
  AttentionBox boxOf(const AttentionPass &pass, int64_t task) const;

  bool isBiasSummedOver(int dim) const {
    return whole.biasGradient && (*whole.biasGradient)[dim] == 0;
  }
  /// True if the gradients of a block of keys are complete when the last
  /// queries of one head have passed by.
  bool hasOneHeadForKeys() const { return shape.heads == shape.groups; }
  /// The rows of queries, and of keys, whose gradients a task sums up at once.
  /// @{
  int64_t countQuerySums(const AttentionPass &pass) const;
  int64_t countKeySums(const AttentionPass &pass) const;
  /// @}

private:
  AttentionPass joined(AttentionPass pass) const;
  std::array<int64_t, 4> tasksOf(const AttentionPass &pass) const;
  double rounds(const AttentionPass &pass, int threads) const;

  const AttentionGradShape &whole;
  const AttentionShape &shape;
};

} // namespace polyrank::runtime
