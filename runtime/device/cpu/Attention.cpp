// The forward of attention: each task is a block of queries of one head, to
// which the keys come block by block.

#include "runtime/device/cpu/Attention.h"

#include "runtime/device/cpu/AttentionTiles.h"
#include "runtime/device/cpu/GemmTiles.h"

#include <cmath>

namespace polyrank::runtime {
namespace {

/// The scratch of one thread.
struct Scratch {
  Scratch(const AttentionShape &shape, void *memory) {
    ScratchParts parts(memory);
    AttentionBlocks blocks(shape.products, shape.type);
    tile = parts.take<float>(shape.blockQueries * rowStrideOf(shape));
    largest = parts.take<float>(shape.blockQueries);
    totals = parts.take<float>(shape.blockQueries);
    if (blocks.isNarrow())
      sums = parts.takeAligned<float>(shape.blockQueries * shape.valueWidth);
    query =
        blocks.take(parts, shape.blockQueries, shape.width, {.isLeft = true});
    key = blocks.take(parts, shape.blockKeys, shape.width,
                      {.isTransposed = true});
    value = blocks.take(parts, shape.blockKeys, shape.valueWidth,
                        {.isSummed = true});
    weights = blocks.takeTile(parts, shape.blockQueries, shape.blockKeys,
                              /*byRows=*/true, /*byColumns=*/false);
    bytes = (parts.bytes() + 63) / 64 * 64;
  }

  float *tile, *largest, *totals;
  float *sums = nullptr; // of values, unless the result is f32
  BlockScratch query, key, value, weights;
  uint64_t bytes;
};

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
    const Scratch &scratch;
    float *tile, *largest, *totals;
    AttentionBlock rows; // of queries
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
    Scratch scratch(shape, static_cast<std::byte *>(operands.scratch) +
                               thread * attentionScratchBytes(shape, 1));
    Range queries = tiles.queriesOf(blocks - 1 - task % blocks);
    Block block{head / shape.heads, head % shape.heads, queries,        scratch,
                scratch.tile,       scratch.largest,    scratch.totals, {}};
    block.rows = tiles.blocks.load(
        tiles.queryAt(block.batch, block.head, queries.begin), shape.query.row,
        queries.size(), shape.width, scratch.query);
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

  std::byte *resultAt(const Block &block, int64_t row) const {
    return tiles.at(operands.result, shape.result, block.batch, block.head,
                    block.queries.begin + row);
  }
  /// The weighted values of a row, summed up so far: in the result, or in
  /// scratch from where they are rounded to it.
  float *sumsOf(const Block &block, int64_t row) const {
    return block.scratch.sums ? block.scratch.sums + row * shape.valueWidth
                              : reinterpret_cast<float *>(resultAt(block, row));
  }
  int64_t sumStride(const Block &block) const {
    return block.scratch.sums ? shape.valueWidth : shape.result.row;
  }

  bool visit(Block &block, Range keys) {
    return forEachTile(keys, shape.blockKeys, [&](Range tile) {
      AttentionBlock rows = tiles.blocks.load(
          tiles.keyAt(block.batch, block.head, tile.begin), shape.key.row,
          tile.size(), shape.width, block.scratch.key);
      return tiles.blocks.multiplyRows(block.queries.size(), tile.size(),
                                       shape.width, shape.scale, block.rows,
                                       rows, block.tile, tiles.rowStride()) &&
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
        tiles.rows.scale(sumsOf(block, row), shape.valueWidth, factor);
    }
    const AttentionBlocks &blocks = tiles.blocks;
    AttentionBlock values = blocks.load(
        tiles.at(operands.value, shape.value, block.batch,
                 tiles.groupOf(block.head), keys.begin),
        shape.value.row, keys.size(), shape.valueWidth, block.scratch.value);
    TileFactor weights =
        blocks.round(block.tile, tiles.rowStride(), block.queries.size(),
                     keys.size(), block.scratch.weights);
    bool works = blocks.sumOverKeys(
        block.queries.size(), keys.size(), shape.valueWidth, 1, weights, values,
        !block.isFirst, sumsOf(block, 0), sumStride(block));
    block.isFirst = false;
    return works;
  }

  void finish(const Block &block) {
    float *lse = operands.lse +
                 (block.batch * shape.heads + block.head) * shape.queries +
                 block.queries.begin;
    for (int64_t row = 0; row < block.queries.size(); ++row) {
      lse[row] = normalize(block, row);
      if (block.scratch.sums)
        tiles.blocks.writeRow(sumsOf(block, row), shape.valueWidth,
                              resultAt(block, row));
    }
  }

  /// Divides the sums of a row by its total. Returns its lse.
  float normalize(const Block &block, int64_t row) {
    float total = block.totals[row];
    if (total == 0 && shape.rules.masked == MaskedScores::Zero &&
        !tiles.seesAny(block.batch, block.head, block.queries.begin + row)) {
      std::fill_n(sumsOf(block, row), shape.valueWidth, 0.f);
      return -INFINITY;
    }
    if (total == 0) // all scores are -infinity
      total = NAN;
    tiles.rows.scale(sumsOf(block, row), shape.valueWidth, 1 / total);
    return block.largest[row] + std::log(total);
  }

  const AttentionShape &shape;
  const AttentionOperands &operands;
  AttentionTiles tiles;
};

} // namespace

uint64_t attentionScratchBytes(const AttentionShape &shape, int threads) {
  return threads * Scratch(shape, nullptr).bytes;
}

Result<void> runAttention(const AttentionShape &shape,
                          const AttentionOperands &operands, int threads) {
  if (!Forward(shape, operands).run(threads))
    return attentionError(shape);
  return {};
}

} // namespace polyrank::runtime
