// The backward of attention. A task is a box of heads, queries and keys whose
// gradients no other task adds to, so there are no atomic additions. Where
// there are enough heads, one pass computes all gradients, with five products
// for each tile. Otherwise there are two passes, by queries and by keys, with
// seven products together. Both add in the same order and give the same bits.

#include "runtime/device/cpu/Attention.h"

#include "runtime/device/cpu/AttentionTiles.h"
#include "runtime/device/cpu/GemmTiles.h"

#include <cmath>

namespace polyrank::runtime {
namespace {

/// Which gradients a pass computes.
struct Wanted {
  bool queries = false, keys = false, bias = false;
};

/// A pass, and the dims over which its tasks are divided.
struct Pass {
  Wanted wanted;
  bool byBatch = true, byGroup = true;
  bool byHead = false; // within its group
  bool byQueries = false, byKeys = false;
};

/// The part that one task computes. Queries and keys are counted in blocks.
struct Box {
  Range batches, heads, queries, keys;
};

class Backward {
public:
  Backward(const AttentionGradShape &whole,
           const AttentionGradOperands &operands)
      : whole(whole), shape(whole.forward), operands(operands),
        tiles(shape, operands.query, operands.key, operands.bias, operands.mask,
              operands.counters) {}

  bool run(int threads) {
    threads = isAttentionWorthATeam(shape) ? threads : 1;
    Pass all = onePass();
    std::array<Pass, 2> both = twoPasses();
    if (rounds(all, threads) * 5 <=
        rounds(both[0], threads) * 3 + rounds(both[1], threads) * 4)
      return run(all, threads);
    return run(both[0], threads) && run(both[1], threads);
  }

private:
  // Passes and boxes.

  bool addsBias() const { return whole.biasGradient.has_value(); }
  bool isBiasSummedOver(int dim) const {
    return addsBias() && (*whole.biasGradient)[dim] == 0;
  }

  /// Tasks that add to one element of the bias must be one task.
  Pass joined(Pass pass) const {
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
  Pass onePass() const {
    Pass pass;
    pass.wanted = {true, true, addsBias()};
    return joined(pass);
  }
  std::array<Pass, 2> twoPasses() const {
    Pass byQueries, byKeys;
    byQueries.wanted.queries = byKeys.wanted.keys = true;
    byQueries.byHead = byQueries.byQueries = byKeys.byKeys = true;
    if (addsBias())
      (isBiasSummedOver(2) && !isBiasSummedOver(3) ? byKeys : byQueries)
          .wanted.bias = true;
    return {joined(byQueries), joined(byKeys)};
  }

  /// The sizes of the dims of a pass's tasks.
  std::array<int64_t, 4> tasksOf(const Pass &pass) const {
    return {pass.byBatch ? shape.batch : 1,
            pass.byHead    ? shape.heads
            : pass.byGroup ? shape.groups
                           : 1,
            pass.byQueries ? tiles.countQueryBlocks() : 1,
            pass.byKeys ? tiles.countKeyBlocks() : 1};
  }
  int64_t countTasks(const Pass &pass) const {
    int64_t count = 1;
    for (int64_t size : tasksOf(pass))
      count *= size;
    return count;
  }
  /// The time of a pass as a part of what one thread takes.
  double rounds(const Pass &pass, int threads) const {
    int64_t tasks = countTasks(pass);
    return static_cast<double>((tasks - 1) / threads + 1) / tasks;
  }
  Box boxOf(const Pass &pass, int64_t task) const {
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
            part(2, tiles.countQueryBlocks()), part(3, tiles.countKeyBlocks())};
  }

  bool run(const Pass &pass, int threads) {
    int64_t tasks = countTasks(pass);
    return runTasks(tasks > 1 ? threads : 1, tasks,
                    [&](int64_t task, int64_t thread) {
                      return compute(pass.wanted, boxOf(pass, task), thread);
                    });
  }

  // One task.

  /// The numbers that the rows of one head need, and the tiles.
  struct Scratch {
    float *weights, *slopes;     // the two tiles
    float *lse, *norms, *deltas; // [queries]
    uint8_t *visitsAll; // for each block of queries: also hidden keys count
  };
  Scratch scratchOf(int64_t thread) const {
    std::byte *begin = static_cast<std::byte *>(operands.scratch) +
                       thread * attentionScratchBytes(whole, 1);
    Scratch scratch;
    int64_t tile = shape.blockQueries * tiles.rowStride();
    scratch.weights = reinterpret_cast<float *>(begin);
    scratch.slopes = scratch.weights + tile;
    scratch.lse = scratch.slopes + tile;
    scratch.norms = scratch.lse + shape.queries;
    scratch.deltas = scratch.norms + shape.queries;
    scratch.visitsAll =
        reinterpret_cast<uint8_t *>(scratch.deltas + shape.queries);
    return scratch;
  }

  bool compute(Wanted wanted, const Box &box, int64_t thread) {
    clear(wanted, box);
    Scratch scratch = scratchOf(thread);
    for (int64_t batch = box.batches.begin; batch < box.batches.end; ++batch)
      for (int64_t head = box.heads.begin; head < box.heads.end; ++head) {
        for (int64_t m = box.queries.begin; m < box.queries.end; ++m)
          if (!prepare(scratch, batch, head, m))
            return false;
        for (int64_t n = box.keys.begin; n < box.keys.end; ++n)
          for (int64_t m = box.queries.begin; m < box.queries.end; ++m)
            if (!add(wanted, scratch, batch, head, m, n))
              return false;
      }
    return true;
  }

  /// Sets the gradients of a box to zero.
  void clear(Wanted wanted, const Box &box) {
    Range queries{tiles.queriesOf(box.queries.begin).begin,
                  tiles.queriesOf(box.queries.end - 1).end};
    Range keys{tiles.keysOf(box.keys.begin).begin,
               tiles.keysOf(box.keys.end - 1).end};
    auto clearRows = [&](float *base, const RowStrides &strides, Range heads,
                         Range rows, int64_t width) {
      for (int64_t batch = box.batches.begin; batch < box.batches.end; ++batch)
        for (int64_t head = heads.begin; head < heads.end; ++head)
          for (int64_t row = rows.begin; row < rows.end; ++row)
            std::fill_n(tiles.at(base, strides, batch, head, row), width, 0.f);
    };
    if (wanted.queries)
      clearRows(operands.queryGradient, whole.queryGradient, box.heads, queries,
                shape.width);
    if (wanted.keys) {
      Range groups{tiles.groupOf(box.heads.begin),
                   tiles.groupOf(box.heads.end - 1) + 1};
      clearRows(operands.keyGradient, whole.keyGradient, groups, keys,
                shape.width);
      clearRows(operands.valueGradient, whole.valueGradient, groups, keys,
                shape.valueWidth);
    }
    if (!wanted.bias)
      return;
    auto once = [&](int dim, Range range) {
      return isBiasSummedOver(dim) ? Range{0, 1} : range;
    };
    const ScoreStrides &strides = *whole.biasGradient;
    Range batches = once(0, box.batches), heads = once(1, box.heads);
    Range rows = once(2, queries), columns = once(3, keys);
    for (int64_t batch = batches.begin; batch < batches.end; ++batch)
      for (int64_t head = heads.begin; head < heads.end; ++head)
        for (int64_t row = rows.begin; row < rows.end; ++row)
          std::fill_n(operands.biasGradient + batch * strides[0] +
                          head * strides[1] + row * strides[2] + columns.begin,
                      columns.size(), 0.f);
  }

  /// Computes what the rows of a block of queries need.
  bool prepare(Scratch &scratch, int64_t batch, int64_t head, int64_t m) {
    Range queries = tiles.queriesOf(m);
    const float *lse = operands.lse +
                       (batch * shape.heads + head) * shape.queries +
                       queries.begin;
    bool isZero = shape.rules.masked == MaskedScores::Zero;
    scratch.visitsAll[m] = !tiles.ignoresHidden(batch, head, queries, lse);
    // lse is rounded: from here on exp(score - lse) is too far from the weight.
    constexpr float large = 4096;
    bool isInexact = false;
    for (int64_t row = 0; row < queries.size(); ++row) {
      int64_t query = queries.begin + row;
      // A query that sees no key has weights of zero.
      bool isEmpty = isZero && lse[row] == -INFINITY;
      scratch.lse[query] = isEmpty ? INFINITY : lse[row];
      scratch.norms[query] = 1;
      scratch.deltas[query] = tiles.rows.dot(
          gradientAt(batch, head, query),
          tiles.at(operands.result, shape.result, batch, head, query),
          shape.valueWidth);
      isInexact |= std::abs(lse[row]) >= large && std::isfinite(lse[row]);
    }
    return !isInexact ||
           normalize(scratch, batch, head, queries, scratch.visitsAll[m]);
  }

  /// Makes weights of which each row has the sum 1.
  bool normalize(Scratch &scratch, int64_t batch, int64_t head, Range queries,
                 bool visitsAll) {
    float *totals = scratch.norms + queries.begin;
    std::fill_n(totals, queries.size(), 0.f);
    Range keys = visitsAll ? Range{0, shape.keys} : tiles.seenBy(queries);
    bool works = forEachTile(keys, shape.blockKeys, [&](Range tile) {
      if (!tiles.multiply(batch, head, queries, tile, scratch.weights))
        return false;
      for (int64_t row = 0; row < queries.size(); ++row) {
        int64_t query = queries.begin + row;
        float *scores = scratch.weights + row * tiles.rowStride();
        RowKeys each = tiles.rowKeys(batch, head, query, tile);
        tiles.rows.toScores(scores, each, shape.rules);
        totals[row] += tiles.rows.toWeights(scores, each, shape.rules,
                                            scratch.lse[query], nullptr);
      }
      return true;
    });
    for (int64_t row = 0; row < queries.size(); ++row)
      totals[row] = totals[row] == 0 ? 1 : 1 / totals[row];
    return works;
  }

  const float *gradientAt(int64_t batch, int64_t head, int64_t row) const {
    return tiles.at(operands.resultGradient, whole.resultGradient, batch, head,
                    row);
  }

  /// Adds what a tile contributes to the gradients.
  bool add(Wanted wanted, const Scratch &scratch, int64_t batch, int64_t head,
           int64_t m, int64_t n) {
    Range queries = tiles.queriesOf(m), keys = tiles.keysOf(n);
    if (!scratch.visitsAll[m]) {
      Range seen = tiles.seenBy(queries);
      keys = {std::max(keys.begin, seen.begin), std::min(keys.end, seen.end)};
    }
    if (keys.isEmpty())
      return true;
    int64_t group = tiles.groupOf(head), ld = tiles.rowStride();
    const float *gradient = gradientAt(batch, head, queries.begin);
    const float *query = tiles.queryAt(batch, head, queries.begin);
    const float *key = tiles.keyAt(batch, head, keys.begin);
    const float *value =
        tiles.at(operands.value, shape.value, batch, group, keys.begin);
    if (!tiles.multiply(batch, head, queries, keys, scratch.weights) ||
        !multiplyTile(false, true, queries.size(), keys.size(),
                      shape.valueWidth, 1, gradient, whole.resultGradient.row,
                      value, shape.value.row, 0, scratch.slopes, ld))
      return false;
    for (int64_t row = 0; row < queries.size(); ++row)
      toSlopes(wanted, scratch, batch, head, queries.begin + row, keys,
               row * ld);
    if (wanted.queries &&
        !multiplyTile(false, false, queries.size(), shape.width, keys.size(),
                      shape.scale, scratch.slopes, ld, key, shape.key.row, 1,
                      tiles.at(operands.queryGradient, whole.queryGradient,
                               batch, head, queries.begin),
                      whole.queryGradient.row))
      return false;
    return !wanted.keys ||
           (multiplyTile(true, false, keys.size(), shape.width, queries.size(),
                         shape.scale, scratch.slopes, ld, query,
                         shape.query.row, 1,
                         tiles.at(operands.keyGradient, whole.keyGradient,
                                  batch, group, keys.begin),
                         whole.keyGradient.row) &&
            multiplyTile(true, false, keys.size(), shape.valueWidth,
                         queries.size(), 1, scratch.weights, ld, gradient,
                         whole.resultGradient.row, 1,
                         tiles.at(operands.valueGradient, whole.valueGradient,
                                  batch, group, keys.begin),
                         whole.valueGradient.row));
  }

  void toSlopes(Wanted wanted, const Scratch &scratch, int64_t batch,
                int64_t head, int64_t query, Range keys, int64_t at) const {
    RowGradient row{scratch.lse[query], scratch.norms[query],
                    scratch.deltas[query]};
    if (wanted.bias) {
      const ScoreStrides &strides = *whole.biasGradient;
      row.bias = operands.biasGradient + batch * strides[0] +
                 head * strides[1] + query * strides[2] +
                 keys.begin * strides[3];
      row.hasOneBias = strides[3] == 0;
    }
    RowDropout dropout;
    if (shape.dropout)
      dropout = tiles.rowDropout(batch, head, query, keys);
    tiles.rows.toSlopes(scratch.weights + at, scratch.slopes + at,
                        tiles.rowKeys(batch, head, query, keys), shape.rules,
                        row, shape.dropout ? &dropout : nullptr);
  }

  const AttentionGradShape &whole;
  const AttentionShape &shape;
  const AttentionGradOperands &operands;
  AttentionTiles tiles;
};

} // namespace

uint64_t attentionScratchBytes(const AttentionGradShape &whole, int threads) {
  const AttentionShape &shape = whole.forward;
  uint64_t rowStride = (shape.blockKeys + 15) / 16 * 16;
  uint64_t floats =
      2 * shape.blockQueries * rowStride + 3 * uint64_t(shape.queries);
  uint64_t blocks = (shape.queries - 1) / shape.blockQueries + 1;
  return threads * ((floats * sizeof(float) + blocks + 63) / 64 * 64);
}

Result<void> runAttentionGrad(const AttentionGradShape &shape,
                              const AttentionGradOperands &operands,
                              int threads) {
  if (!Backward(shape, operands).run(threads))
    return attentionError(shape.forward);
  return {};
}

} // namespace polyrank::runtime
