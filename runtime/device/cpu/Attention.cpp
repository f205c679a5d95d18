// The forward of attention: each task is a block of queries of one head, to
// which the keys come block by block.

#include "runtime/device/cpu/Attention.h"

#include "runtime/device/cpu/AttentionTiles.h"
#include "runtime/device/cpu/GemmTiles.h"

#include <cmath>

namespace polyrank::runtime {
namespace {

class Forward {
public:
  Forward(const AttentionShape &shape, const AttentionOperands &operands)
      : shape(shape), operands(operands),
        tiles(shape, operands.query, operands.key, operands.bias, operands.mask,
              operands.counters) {}

  bool run(int threads) {
    int64_t tasks = shape.batch * shape.heads * tiles.countQueryBlocks();
    return runTasks(
        isAttentionWorthATeam(shape) ? threads : 1, tasks,
        [&](int64_t task, int64_t thread) { return compute(task, thread); });
  }

private:
  /// A block of queries while it is computed.
  struct Block {
    int64_t batch, head;
    Range queries;
    float *tile, *largest, *totals;
    bool isFirst = true; // nothing has been added to the result

    /// exp(score - shift) is defined where all scores so far are -infinity.
    float shift(int64_t row) const {
      return largest[row] == -INFINITY ? 0 : largest[row];
    }
  };

  bool compute(int64_t task, int64_t thread) {
    // Tasks with more keys come first, so that threads end together.
    int64_t blocks = tiles.countQueryBlocks();
    int64_t head = task / blocks;
    float *scratch =
        reinterpret_cast<float *>(static_cast<std::byte *>(operands.scratch) +
                                  thread * (attentionScratchBytes(shape, 1)));
    Block block{head / shape.heads,
                head % shape.heads,
                tiles.queriesOf(blocks - 1 - task % blocks),
                scratch,
                scratch + shape.blockQueries * tiles.rowStride(),
                nullptr};
    block.totals = block.largest + shape.blockQueries;
    std::fill_n(block.largest, block.queries.size(), -INFINITY);
    std::fill_n(block.totals, block.queries.size(), 0.f);
    Range seen = tiles.seenBy(block.queries);
    if (!visit(block, seen))
      return false;
    if (!tiles.ignoresHidden(block.batch, block.head, block.queries,
                             block.largest) &&
        (!visit(block, {0, seen.begin}) ||
         !visit(block, {seen.end, shape.keys})))
      return false;
    finish(block);
    return true;
  }

  float *resultAt(const Block &block, int64_t row) const {
    return tiles.at(operands.result, shape.result, block.batch, block.head,
                    block.queries.begin + row);
  }

  bool visit(Block &block, Range keys) {
    return forEachTile(keys, shape.blockKeys, [&](Range tile) {
      return tiles.multiply(block.batch, block.head, block.queries, tile,
                            block.tile) &&
             add(block, tile);
    });
  }

  /// Adds the weights of a tile of products, and their values.
  bool add(Block &block, Range keys) {
    for (int64_t row = 0; row < block.queries.size(); ++row) {
      int64_t query = block.queries.begin + row;
      float *scores = block.tile + row * tiles.rowStride();
      RowKeys each = tiles.rowKeys(block.batch, block.head, query, keys);
      float before = block.shift(row);
      float largest = tiles.rows.toScores(scores, each, shape.rules);
      // Where nothing has been added yet, there is nothing to rescale.
      float factor = 1;
      if (largest > block.largest[row]) {
        if (block.largest[row] != -INFINITY)
          factor = std::exp(before - largest);
        block.largest[row] = largest;
      }
      RowDropout dropout;
      if (shape.dropout)
        dropout = tiles.rowDropout(block.batch, block.head, query, keys);
      float total =
          tiles.rows.toWeights(scores, each, shape.rules, block.shift(row),
                               shape.dropout ? &dropout : nullptr);
      block.totals[row] = block.totals[row] * factor + total;
      if (!block.isFirst && factor != 1)
        tiles.rows.scale(resultAt(block, row), shape.valueWidth, factor);
    }
    bool works =
        multiplyTile(false, false, block.queries.size(), shape.valueWidth,
                     keys.size(), 1, block.tile, tiles.rowStride(),
                     tiles.at(operands.value, shape.value, block.batch,
                              tiles.groupOf(block.head), keys.begin),
                     shape.value.row, block.isFirst ? 0 : 1, resultAt(block, 0),
                     shape.result.row);
    block.isFirst = false;
    return works;
  }

  void finish(const Block &block) {
    float *lse = operands.lse +
                 (block.batch * shape.heads + block.head) * shape.queries +
                 block.queries.begin;
    for (int64_t row = 0; row < block.queries.size(); ++row) {
      float *result = resultAt(block, row);
      float total = block.totals[row];
      if (total == 0 && shape.rules.masked == MaskedScores::Zero &&
          !tiles.seesAny(block.batch, block.head, block.queries.begin + row)) {
        std::fill_n(result, shape.valueWidth, 0.f);
        lse[row] = -INFINITY;
        continue;
      }
      if (total == 0) // all scores are -infinity
        total = NAN;
      tiles.rows.scale(result, shape.valueWidth, 1 / total);
      lse[row] = block.largest[row] + std::log(total);
    }
  }

  const AttentionShape &shape;
  const AttentionOperands &operands;
  AttentionTiles tiles;
};

} // namespace

uint64_t attentionScratchBytes(const AttentionShape &shape, int threads) {
  uint64_t rowStride = (shape.blockKeys + 15) / 16 * 16;
  uint64_t floats = shape.blockQueries * rowStride + 2 * shape.blockQueries;
  return threads * ((floats * sizeof(float) + 63) / 64 * 64);
}

Result<void> runAttention(const AttentionShape &shape,
                          const AttentionOperands &operands, int threads) {
  if (!Forward(shape, operands).run(threads))
    return attentionError(shape);
  return {};
}

} // namespace polyrank::runtime
