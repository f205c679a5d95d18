// Products of groups: which rows belong together is found when they run, and the
// rest is oneDNN's sgemm, tile by tile.

#include "runtime/device/cpu/GroupedGemm.h"

#include "runtime/device/cpu/GemmTiles.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.h>
#include <vector>

namespace polyrank::runtime {
namespace {

/// Numbers that follow each other and are in one group.
struct Stretch {
  int64_t group, begin, count;
};

std::vector<Stretch> stretchesOf(const int64_t *groups, int64_t count) {
  std::vector<Stretch> result;
  for (int64_t i = 0; i < count; ++i)
    if (!result.empty() && result.back().group == groups[i])
      ++result.back().count;
    else
      result.push_back({groups[i], i, 1});
  return result;
}

/// One part of C: the sum of some products of its own sizes, which differ in
/// their inner sizes and in where operands begin. Without any it is zero.
struct Block {
  struct Term {
    int64_t a, b, k; // elements from the operands' begin
  };
  int64_t c, rows;
  std::vector<Term> terms;
};

/// The part of a block that one task computes.
struct Piece {
  size_t block;
  int64_t m0, n0, rows, columns;
};

class GroupedProducts final : public PreparedGemm {
public:
  GroupedProducts(const GemmShape &shape, int threads)
      : shape(shape), group(shape.batch.front()), threads(threads) {}

  uint64_t scratchBytes() const override { return 0; }

  Result<void> run(const GemmOperands &operands) override {
    std::vector<Block> blocks = shape.grouped == GemmGroups::Rows
                                    ? blocksOfRows(operands)
                                    : blocksOfGroups(operands);
    std::vector<Piece> pieces = cut(blocks);
    bool isWorth = pieces.size() > 1 &&
                   shape.m * shape.n * shape.k >= worthATeam;
    if (runTasks(isWorth ? threads : 1, static_cast<int64_t>(pieces.size()),
                 [&](int64_t task, int64_t) {
                   const Piece &piece = pieces[task];
                   return compute(operands, blocks[piece.block], piece);
                 }))
      return {};
    return Error{"gemm " + describe(shape) + ": oneDNN: the product failed",
                 Error::Fault::Rank};
  }

private:
  int64_t atRow(int64_t m) const { return shape.transposeA ? m : m * shape.lda; }
  int64_t atColumn(int64_t n) const {
    return shape.transposeB ? n * shape.ldb : n;
  }

  /// A block for each stretch of rows, with a term for each product of its group.
  std::vector<Block> blocksOfRows(const GemmOperands &operands) const {
    std::vector<Block> blocks;
    for (const Stretch &stretch : stretchesOf(operands.groups, shape.m)) {
      Block &block = blocks.emplace_back(
          Block{stretch.begin * shape.ldc, stretch.count, {}});
      for (int64_t e = 0; e < group.count; ++e)
        if (operands.ids[e] == stretch.group)
          block.terms.push_back(
              {e * group.aStride + atRow(stretch.begin), e * group.bStride,
               shape.k});
    }
    return blocks;
  }

  /// A block for each product, with a term for each stretch of its group.
  std::vector<Block> blocksOfGroups(const GemmOperands &operands) const {
    std::vector<Stretch> stretches = stretchesOf(operands.groups, shape.k);
    std::vector<Block> blocks;
    for (int64_t e = 0; e < group.count; ++e) {
      Block &block =
          blocks.emplace_back(Block{e * group.cStride, shape.m, {}});
      for (const Stretch &stretch : stretches)
        if (operands.ids[e] == stretch.group)
          block.terms.push_back(
              {e * group.aStride +
                   stretch.begin * (shape.transposeA ? shape.lda : 1),
               e * group.bStride +
                   stretch.begin * (shape.transposeB ? 1 : shape.ldb),
               stretch.count});
    }
    return blocks;
  }

  /// By the sizes and the groups alone.
  std::vector<Piece> cut(const std::vector<Block> &blocks) const {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Block &block = blocks[i];
      GemmShape one;
      one.m = block.rows, one.n = shape.n, one.k = 0;
      one.pieces = shape.pieces;
      for (const Block::Term &term : block.terms)
        one.k += term.k;
      one.batch.push_back({static_cast<int64_t>(blocks.size())});
      Tiling tiling(one);
      for (int64_t m0 = 0; m0 < one.m; m0 += tiling.tileM)
        for (int64_t n0 = 0; n0 < one.n; n0 += tiling.tileN)
          pieces.push_back({i, m0, n0, std::min(tiling.tileM, one.m - m0),
                            std::min(tiling.tileN, one.n - n0)});
    }
    return pieces;
  }

  bool compute(const GemmOperands &operands, const Block &block,
               const Piece &piece) const {
    float *c = operands.c + block.c + piece.m0 * shape.ldc + piece.n0;
    if (block.terms.empty()) {
      for (int64_t m = 0; m < piece.rows; ++m)
        for (int64_t n = 0; n < piece.columns; ++n) {
          float &element = c[m * shape.ldc + n];
          element = shape.beta == 0 ? 0 : shape.beta * element;
        }
      return true;
    }
    float beta = shape.beta;
    for (const Block::Term &term : block.terms) {
      if (dnnl_sgemm(shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N',
                     piece.rows, piece.columns, term.k, shape.alpha,
                     operands.a + term.a + atRow(piece.m0), shape.lda,
                     operands.b + term.b + atColumn(piece.n0), shape.ldb, beta,
                     c, shape.ldc) != dnnl_success)
        return false;
      beta = 1;
    }
    return true;
  }

  const GemmShape shape;
  const GemmBatchDim group;
  const int threads;
};

} // namespace

Result<std::unique_ptr<PreparedGemm>>
prepareGroupedGemm(const GemmShape &shape, int threads) {
  if (shape.library != GemmLibrary::Sgemm || shape.batch.size() != 1)
    return Error{"gemm " + describe(shape) +
                     ": groups are of one batch dim, and computed by sgemm",
                 Error::Fault::Rank};
  return std::unique_ptr<PreparedGemm>(new GroupedProducts(shape, threads));
}

} // namespace polyrank::runtime
