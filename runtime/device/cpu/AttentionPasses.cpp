// The passes of attention's backward, and the boxes of their tasks.

#include "runtime/device/cpu/AttentionPasses.h"

namespace polyrank::runtime {

/// Tasks that add to one element of the bias must be one task.
AttentionPass AttentionPasses::joined(AttentionPass pass) const {
  if (!pass.wanted.bias)
    return pass;
  pass.byBatch = !isBiasSummedOver(0);
  if (isBiasSummedOver(1))
    pass.byGroup = pass.byHead = false;
  if (isBiasSummedOver(2))
    pass.byQueries = false;
  if (isBiasSummedOver(3))
    pass.byKeys = false;
  return pass;
}

AttentionPass AttentionPasses::onePass() const {
  AttentionPass pass;
  pass.wanted = {true, true, whole.biasGradient.has_value()};
  return joined(pass);
}

std::array<AttentionPass, 2> AttentionPasses::twoPasses() const {
  AttentionPass byQueries, byKeys;
  byQueries.wanted.queries = byKeys.wanted.keys = true;
  byQueries.byHead = byQueries.byQueries = byKeys.byKeys = true;
  if (whole.biasGradient)
    (isBiasSummedOver(2) && !isBiasSummedOver(3) ? byKeys : byQueries)
        .wanted.bias = true;
  return {joined(byQueries), joined(byKeys)};
}

/// The sizes of the dims of a pass's tasks.
std::array<int64_t, 4>
AttentionPasses::tasksOf(const AttentionPass &pass) const {
  return {pass.byBatch ? shape.batch : 1,
          pass.byHead    ? shape.heads
          : pass.byGroup ? shape.groups
                         : 1,
          pass.byQueries ? countQueryBlocks(shape) : 1,
          pass.byKeys ? countKeyBlocks(shape) : 1};
}

int64_t AttentionPasses::countTasks(const AttentionPass &pass) const {
  int64_t count = 1;
  for (int64_t size : tasksOf(pass))
    count *= size;
  return count;
}

/// The time of a pass as a part of what one thread takes.
double AttentionPasses::rounds(const AttentionPass &pass, int threads) const {
  int64_t tasks = countTasks(pass);
  return static_cast<double>((tasks - 1) / threads + 1) / tasks;
}

bool AttentionPasses::isOneFaster(int threads) const {
  auto [byQueries, byKeys] = twoPasses();
  return rounds(onePass(), threads) * 5 <=
         rounds(byQueries, threads) * 3 + rounds(byKeys, threads) * 4;
}

AttentionBox AttentionPasses::boxOf(const AttentionPass &pass,
                                    int64_t task) const {
  auto sizes = tasksOf(pass);
  std::array<int64_t, 4> index;
  for (int dim = 3; dim >= 0; --dim)
    index[dim] = task % sizes[dim], task /= sizes[dim];
  auto part = [&](int dim, int64_t size) {
    int64_t each = size / sizes[dim];
    return Range{index[dim] * each, (index[dim] + 1) * each};
  };
  // The last queries see the most keys if attention is causal.
  index[2] = sizes[2] - 1 - index[2];
  return {part(0, shape.batch), part(1, shape.heads),
          part(2, countQueryBlocks(shape)), part(3, countKeyBlocks(shape))};
}

int64_t AttentionPasses::countQuerySums(const AttentionPass &pass) const {
  if (!pass.wanted.queries)
    return 0;
  return pass.byQueries ? shape.blockQueries : shape.queries;
}

int64_t AttentionPasses::countKeySums(const AttentionPass &pass) const {
  if (!pass.wanted.keys)
    return 0;
  return pass.byKeys || hasOneHeadForKeys() ? shape.blockKeys : shape.keys;
}

} // namespace polyrank::runtime
