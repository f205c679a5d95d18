// The backward of attention. A task is a box of heads, queries and keys whose
// gradients no other task adds to, so there are no atomic additions. Where
// there are enough heads, one pass computes all gradients, and otherwise there
// are two (AttentionPasses.h). Both add in the same order and give the same
// bits.
//
// Gradients of bf16 and f16 are summed up in scratch, in f32, until a task has
// added all that it adds to them, and are then rounded.

#include "runtime/device/cpu/Attention.h"

#include "runtime/device/cpu/AttentionPasses.h"
#include "runtime/device/cpu/GemmTiles.h"

#include <cmath>

namespace polyrank::runtime {
namespace {

/// Scratch of narrow elements is at most this large in one pass; otherwise
/// there are two.
constexpr uint64_t mostOfOnePass = 2 << 20;

/// The scratch of one thread: the numbers that the rows of one head need, the
/// tiles, and what narrow elements need.
struct Scratch {
  Scratch(const AttentionGradShape &whole, const AttentionPass &pass,
          void *memory) {
    const AttentionShape &shape = whole.forward;
    AttentionBlocks blocks(shape.products, shape.type);
    ScratchParts parts(memory);
    int64_t tile = shape.blockQueries * rowStrideOf(shape);
    weights = parts.take<float>(tile);
    slopes = parts.take<float>(tile);
    lse = parts.take<float>(shape.queries);
    norms = parts.take<float>(shape.queries);
    deltas = parts.take<float>(shape.queries);
    visitsAll = parts.take<uint8_t>(countQueryBlocks(shape));
    bool queries = pass.wanted.queries, keys = pass.wanted.keys;
    query = blocks.take(parts, shape.blockQueries, shape.width,
                        {.isLeft = true, .isSummed = keys});
    gradient = blocks.take(parts, shape.blockQueries, shape.valueWidth,
                           {.isLeft = true, .isSummed = keys});
    key = blocks.take(parts, shape.blockKeys, shape.width,
                      {.isTransposed = true, .isSummed = queries});
    value = blocks.take(parts, shape.blockKeys, shape.valueWidth,
                        {.isTransposed = true});
    roundedWeights = blocks.takeTile(parts, shape.blockQueries, shape.blockKeys,
                                     /*byRows=*/false, /*byColumns=*/keys);
    roundedSlopes = blocks.takeTile(parts, shape.blockQueries, shape.blockKeys,
                                    /*byRows=*/queries, /*byColumns=*/keys);
    if (blocks.isNarrow()) {
      AttentionPasses passes(whole);
      int64_t queryRows = passes.countQuerySums(pass);
      int64_t keyRows = passes.countKeySums(pass);
      gradientRow = parts.takeAligned<float>(shape.valueWidth);
      resultRow = parts.takeAligned<float>(shape.valueWidth);
      querySums = parts.takeAligned<float>(queryRows * shape.width);
      keySums = parts.takeAligned<float>(keyRows * shape.width);
      valueSums = parts.takeAligned<float>(keyRows * shape.valueWidth);
    }
    bytes = (parts.bytes() + 63) / 64 * 64;
  }

  float *weights, *slopes;     // the two tiles
  float *lse, *norms, *deltas; // [queries]
  uint8_t *visitsAll; // for each block of queries: also hidden keys count
  BlockScratch query, gradient, key, value, roundedWeights, roundedSlopes;
  float *gradientRow = nullptr, *resultRow = nullptr;
  float *querySums = nullptr, *keySums = nullptr, *valueSums = nullptr;
  uint64_t bytes;
};

/// Returns true if one pass may compute all gradients.
bool mayBeOnePass(const AttentionGradShape &whole) {
  return whole.forward.products == TileProducts::Float32 ||
         Scratch(whole, AttentionPasses(whole).onePass(), nullptr).bytes <=
             mostOfOnePass;
}

class Backward {
public:
  Backward(const AttentionGradShape &whole,
           const AttentionGradOperands &operands)
      : whole(whole), shape(whole.forward), operands(operands), passes(whole),
        tiles(shape, operands.query, operands.key, operands.bias, operands.mask,
              operands.counters) {}

  bool run(int threads) {
    threads = isAttentionWorthATeam(shape) ? threads : 1;
    if (mayBeOnePass(whole) && passes.isOneFaster(threads))
      return run(passes.onePass(), threads);
    auto [byQueries, byKeys] = passes.twoPasses();
    return run(byQueries, threads) && run(byKeys, threads);
  }

private:
  bool run(const AttentionPass &pass, int threads) {
    int64_t tasks = passes.countTasks(pass);
    return runTasks(tasks > 1 ? threads : 1, tasks,
                    [&](int64_t task, int64_t thread) {
                      return compute(pass, passes.boxOf(pass, task), thread);
                    });
  }

  /// A task while it is computed.
  struct Task {
    WantedGradients wanted;
    AttentionBox box;
    Scratch scratch;
    int64_t batch = 0, head = 0;
    /// The keys and values that are loaded.
    Range loadedKeys{};
    AttentionBlock key{}, value{};
    /// The rows of which scratch has the sums, unless the gradients are f32.
    Range querySums{}, keySums{};
  };

  Range queriesOf(const AttentionBox &box) const {
    return {tiles.queriesOf(box.queries.begin).begin,
            tiles.queriesOf(box.queries.end - 1).end};
  }
  Range keysOf(const AttentionBox &box) const {
    return {tiles.keysOf(box.keys.begin).begin,
            tiles.keysOf(box.keys.end - 1).end};
  }

  bool compute(const AttentionPass &pass, const AttentionBox &box,
               int64_t thread) {
    clear(pass.wanted, box);
    Task task{pass.wanted, box,
              Scratch(whole, pass,
                      static_cast<std::byte *>(operands.scratch) +
                          thread * attentionScratchBytes(whole, 1))};
    int64_t headsOfGroup = shape.heads / shape.groups;
    for (task.batch = box.batches.begin; task.batch < box.batches.end;
         ++task.batch)
      for (task.head = box.heads.begin; task.head < box.heads.end;
           ++task.head) {
        bool areShared = !passes.hasOneHeadForKeys();
        if (areShared && task.head % headsOfGroup == 0)
          beginKeys(task, keysOf(box));
        if (!computeHead(task))
          return false;
        if (areShared && task.head % headsOfGroup == headsOfGroup - 1)
          endKeys(task);
      }
    return true;
  }

  bool computeHead(Task &task) {
    const AttentionBox &box = task.box;
    task.loadedKeys = {};
    beginQueries(task, queriesOf(box));
    for (int64_t m = box.queries.begin; m < box.queries.end; ++m)
      if (!prepare(task, m))
        return false;
    for (int64_t n = box.keys.begin; n < box.keys.end; ++n) {
      if (passes.hasOneHeadForKeys())
        beginKeys(task, tiles.keysOf(n));
      for (int64_t m = box.queries.begin; m < box.queries.end; ++m)
        if (!add(task, m, n))
          return false;
      if (passes.hasOneHeadForKeys())
        endKeys(task);
    }
    endQueries(task);
    return true;
  }

  // Sums of narrow elements: in scratch, from where they are rounded.

  void beginQueries(Task &task, Range rows) {
    if (!tiles.blocks.isNarrow() || !task.wanted.queries)
      return;
    task.querySums = rows;
    std::fill_n(task.scratch.querySums, rows.size() * shape.width, 0.f);
  }
  void endQueries(Task &task) {
    store(task.scratch.querySums, shape.width, operands.queryGradient,
          whole.queryGradient, task.batch, task.head, task.querySums);
    task.querySums = {};
  }
  void beginKeys(Task &task, Range rows) {
    if (!tiles.blocks.isNarrow() || !task.wanted.keys)
      return;
    task.keySums = rows;
    std::fill_n(task.scratch.keySums, rows.size() * shape.width, 0.f);
    std::fill_n(task.scratch.valueSums, rows.size() * shape.valueWidth, 0.f);
  }
  void endKeys(Task &task) {
    int64_t group = tiles.groupOf(task.head);
    store(task.scratch.keySums, shape.width, operands.keyGradient,
          whole.keyGradient, task.batch, group, task.keySums);
    store(task.scratch.valueSums, shape.valueWidth, operands.valueGradient,
          whole.valueGradient, task.batch, group, task.keySums);
    task.keySums = {};
  }
  void store(const float *sums, int64_t width, void *gradient,
             const RowStrides &strides, int64_t batch, int64_t head,
             Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row)
      tiles.blocks.writeRow(sums + (row - rows.begin) * width, width,
                            tiles.at(gradient, strides, batch, head, row));
  }

  /// Where the gradients of rows are summed up: in place, or in scratch.
  struct Sums {
    float *at;
    int64_t stride;
  };
  Sums sumsOf(float *scratch, Range summed, int64_t width, void *gradient,
              const RowStrides &strides, int64_t batch, int64_t head,
              int64_t row) {
    if (tiles.blocks.isNarrow())
      return {scratch + (row - summed.begin) * width, width};
    return {reinterpret_cast<float *>(
                tiles.at(gradient, strides, batch, head, row)),
            strides.row};
  }

  /// Sets the gradients of a box that are summed up in place to zero.
  void clear(WantedGradients wanted, const AttentionBox &box) {
    Range queries = queriesOf(box), keys = keysOf(box);
    auto clearRows = [&](void *base, const RowStrides &strides, Range heads,
                         Range rows, int64_t width) {
      if (tiles.blocks.isNarrow())
        return;
      for (int64_t batch = box.batches.begin; batch < box.batches.end; ++batch)
        for (int64_t head = heads.begin; head < heads.end; ++head)
          for (int64_t row = rows.begin; row < rows.end; ++row)
            std::fill_n(reinterpret_cast<float *>(
                            tiles.at(base, strides, batch, head, row)),
                        width, 0.f);
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
      return passes.isBiasSummedOver(dim) ? Range{0, 1} : range;
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
  bool prepare(Task &task, int64_t m) {
    Scratch &scratch = task.scratch;
    Range queries = tiles.queriesOf(m);
    const float *lse = operands.lse +
                       (task.batch * shape.heads + task.head) * shape.queries +
                       queries.begin;
    bool isZero = shape.rules.masked == MaskedScores::Zero;
    scratch.visitsAll[m] =
        !tiles.ignoresHidden(task.batch, task.head, queries, lse);
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
          tiles.blocks.readRow(gradientAt(task, query), shape.valueWidth,
                               scratch.gradientRow),
          tiles.blocks.readRow(tiles.at(operands.result, shape.result,
                                        task.batch, task.head, query),
                               shape.valueWidth, scratch.resultRow),
          shape.valueWidth);
      isInexact |= std::abs(lse[row]) >= large && std::isfinite(lse[row]);
    }
    return !isInexact || normalize(task, queries, scratch.visitsAll[m]);
  }

  /// Makes weights of which each row has the sum 1.
  bool normalize(Task &task, Range queries, bool visitsAll) {
    Scratch &scratch = task.scratch;
    float *totals = scratch.norms + queries.begin;
    std::fill_n(totals, queries.size(), 0.f);
    Range keys = visitsAll ? Range{0, shape.keys} : tiles.seenBy(queries);
    AttentionBlock query = loadQueries(task, queries);
    bool works = forEachTile(keys, shape.blockKeys, [&](Range tile) {
      AttentionBlock key = loadKeys(task, tile);
      if (!tiles.blocks.multiplyRows(queries.size(), tile.size(), shape.width,
                                     shape.scale, query, key, scratch.weights,
                                     tiles.rowStride()))
        return false;
      for (int64_t row = 0; row < queries.size(); ++row) {
        int64_t query = queries.begin + row;
        float *scores = scratch.weights + row * tiles.rowStride();
        RowKeys each = tiles.rowKeys(task.batch, task.head, query, tile);
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

  const std::byte *gradientAt(const Task &task, int64_t row) const {
    return tiles.at(operands.resultGradient, whole.resultGradient, task.batch,
                    task.head, row);
  }
  AttentionBlock loadQueries(Task &task, Range queries) const {
    return tiles.blocks.load(
        tiles.queryAt(task.batch, task.head, queries.begin), shape.query.row,
        queries.size(), shape.width, task.scratch.query);
  }
  AttentionBlock loadKeys(Task &task, Range keys) const {
    return tiles.blocks.load(tiles.keyAt(task.batch, task.head, keys.begin),
                             shape.key.row, keys.size(), shape.width,
                             task.scratch.key);
  }

  /// Makes keys and values those of `keys`, if they are not.
  void load(Task &task, Range keys) const {
    if (task.loadedKeys == keys)
      return;
    task.loadedKeys = keys;
    task.key = loadKeys(task, keys);
    task.value = tiles.blocks.load(
        tiles.at(operands.value, shape.value, task.batch,
                 tiles.groupOf(task.head), keys.begin),
        shape.value.row, keys.size(), shape.valueWidth, task.scratch.value);
  }

  /// Adds what a tile contributes to the gradients.
  bool add(Task &task, int64_t m, int64_t n) {
    const AttentionBlocks &blocks = tiles.blocks;
    Scratch &scratch = task.scratch;
    Range queries = tiles.queriesOf(m), block = tiles.keysOf(n), keys = block;
    if (!scratch.visitsAll[m]) {
      Range seen = tiles.seenBy(queries);
      keys = {std::max(keys.begin, seen.begin), std::min(keys.end, seen.end)};
    }
    if (keys.isEmpty())
      return true;
    // A copy of a block serves all queries, which use a part of it from its
    // beginning on.
    if (blocks.isNarrow())
      keys.begin = block.begin;
    load(task, blocks.isNarrow() ? block : keys);
    int64_t rows = queries.size(), columns = keys.size();
    int64_t ld = tiles.rowStride(), group = tiles.groupOf(task.head);
    AttentionBlock query = loadQueries(task, queries);
    AttentionBlock gradient =
        blocks.load(gradientAt(task, queries.begin), whole.resultGradient.row,
                    rows, shape.valueWidth, scratch.gradient);
    if (!blocks.multiplyRows(rows, columns, shape.width, shape.scale, query,
                             task.key, scratch.weights, ld) ||
        !blocks.multiplyRows(rows, columns, shape.valueWidth, 1, gradient,
                             task.value, scratch.slopes, ld))
      return false;
    for (int64_t row = 0; row < rows; ++row)
      toSlopes(task, queries.begin + row, keys, row * ld);
    TileFactor weights = blocks.round(scratch.weights, ld, rows, columns,
                                      scratch.roundedWeights);
    TileFactor slopes =
        blocks.round(scratch.slopes, ld, rows, columns, scratch.roundedSlopes);
    if (task.wanted.queries) {
      Sums sums = sumsOf(scratch.querySums, task.querySums, shape.width,
                         operands.queryGradient, whole.queryGradient,
                         task.batch, task.head, queries.begin);
      if (!blocks.sumOverKeys(rows, columns, shape.width, shape.scale, slopes,
                              task.key, /*adds=*/true, sums.at, sums.stride))
        return false;
    }
    if (!task.wanted.keys)
      return true;
    Sums ofKeys =
        sumsOf(scratch.keySums, task.keySums, shape.width, operands.keyGradient,
               whole.keyGradient, task.batch, group, keys.begin);
    Sums ofValues = sumsOf(scratch.valueSums, task.keySums, shape.valueWidth,
                           operands.valueGradient, whole.valueGradient,
                           task.batch, group, keys.begin);
    return blocks.sumOverQueries(rows, columns, shape.width, shape.scale,
                                 slopes, query, ofKeys.at, ofKeys.stride) &&
           blocks.sumOverQueries(rows, columns, shape.valueWidth, 1, weights,
                                 gradient, ofValues.at, ofValues.stride);
  }

  void toSlopes(const Task &task, int64_t query, Range keys, int64_t at) const {
    const Scratch &scratch = task.scratch;
    RowGradient row{scratch.lse[query], scratch.norms[query],
                    scratch.deltas[query]};
    if (task.wanted.bias) {
      const ScoreStrides &strides = *whole.biasGradient;
      row.bias = operands.biasGradient + task.batch * strides[0] +
                 task.head * strides[1] + query * strides[2] +
                 keys.begin * strides[3];
      row.hasOneBias = strides[3] == 0;
    }
    RowDropout dropout;
    if (shape.dropout)
      dropout = tiles.rowDropout(task.batch, task.head, query, keys);
    tiles.rows.toSlopes(scratch.weights + at, scratch.slopes + at,
                        tiles.rowKeys(task.batch, task.head, query, keys),
                        shape.rules, row, shape.dropout ? &dropout : nullptr);
  }

  const AttentionGradShape &whole;
  const AttentionShape &shape;
  const AttentionGradOperands &operands;
  const AttentionPasses passes;
  AttentionTiles tiles;
};

} // namespace

uint64_t attentionScratchBytes(const AttentionGradShape &whole, int threads) {
  AttentionPasses passes(whole);
  auto [byQueries, byKeys] = passes.twoPasses();
  uint64_t bytes = std::max(Scratch(whole, byQueries, nullptr).bytes,
                            Scratch(whole, byKeys, nullptr).bytes);
  if (mayBeOnePass(whole))
    bytes = std::max(bytes, Scratch(whole, passes.onePass(), nullptr).bytes);
  return threads * bytes;
}

Result<void> runAttentionGrad(const AttentionGradShape &shape,
                              const AttentionGradOperands &operands,
                              int threads) {
  if (!Backward(shape, operands).run(threads))
    return attentionError(shape.forward);
  return {};
}

} // namespace polyrank::runtime
