// Grouped GEMMs: finds the rows of each group at run time, and calls oneDNN's
// sgemm tile by tile. Narrow elements are widened on the way to it, so that
// their rows need not be gathered first.

#include "runtime/device/cpu/GroupedGemm.h"

#include "runtime/device/cpu/GemmTiles.h"
#include "runtime/device/cpu/WidenedGemm.h"

#include <algorithm>
#include <numeric>
#include <oneapi/dnnl/dnnl.h>
#include <utility>
#include <vector>

namespace polyrank::runtime {
namespace {

/// The rows, or the elements of the inner dim, of one group.
struct Members {
  const int64_t *numbers = nullptr; // ascending
  int64_t count = 0;
  bool areNeighbours = true; // first, first + 1, ..
};

/// All groups that occur, ascending.
class Membership {
public:
  Membership(const int64_t *groups, int64_t count) : groups(groups) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::pair(groups[a], a) < std::pair(groups[b], b);
    });
    for (int64_t i = 0; i < count; ++i) {
      if (i == 0 || groups[order[i]] != groups[order[i - 1]])
        all.push_back({&order[i], 0, true});
      else
        all.back().areNeighbours &= order[i] == order[i - 1] + 1;
      ++all.back().count;
    }
  }

  const std::vector<Members> &getAll() const { return all; }
  int64_t getGroup(const Members &members) const {
    return groups[members.numbers[0]];
  }
  /// Returns the members of a group; none if it is empty.
  Members find(int64_t group) const {
    auto found = std::lower_bound(all.begin(), all.end(), group,
                                  [&](const Members &each, int64_t group) {
                                    return getGroup(each) < group;
                                  });
    return found != all.end() && getGroup(*found) == group ? *found : Members();
  }

private:
  const int64_t *groups;
  std::vector<int64_t> order;
  std::vector<Members> all;
};

/// Rows of C: those of one group, or all rows of one product.
struct Block {
  Members members;
  std::vector<int64_t> products; // whose sum they are
  int64_t rows;
  int64_t c = 0; // where the rows of a product begin
};

/// The part of a block that one task computes.
struct Piece {
  const Block *block;
  int64_t m0, n0, rows, columns;
};

class GroupedProducts final : public PreparedGemm {
public:
  GroupedProducts(const GemmShape &shape, int threads)
      : shape(shape), group(shape.batch.front()), threads(threads),
        ofRows(shape.grouped == GemmGroups::Rows) {}

  uint64_t scratchBytes() const override { return threads * bytesPerThread(); }

  Result<void> run(const GemmOperands &operands) override {
    Membership membership(operands.groups, ofRows ? shape.m : shape.k);
    std::vector<Block> blocks = ofRows ? blocksOfRows(operands, membership)
                                       : blocksOfProducts(operands, membership);
    std::vector<Piece> pieces = cut(blocks);
    bool isWorth =
        pieces.size() > 1 && shape.m * shape.n * shape.k >= worthATeam;
    auto compute = [&](int64_t task, int64_t thread) {
      const Piece &piece = pieces[task];
      const Members &members = piece.block->members;
      std::byte *memory = static_cast<std::byte *>(operands.scratch) +
                          thread * bytesPerThread();
      if (shape.isNarrow())
        return multiplyWidened(operands, piece, memory);
      auto *scratch = reinterpret_cast<float *>(memory);
      if (piece.block->products.empty() || members.count == 0)
        return scale(operands, piece);
      if (members.areNeighbours)
        return multiplyInPlace(operands, piece);
      return ofRows ? multiplyRows(operands, piece, scratch)
                    : sumProducts(operands, piece, scratch);
    };
    if (runTasks(isWorth ? threads : 1, static_cast<int64_t>(pieces.size()),
                 compute))
      return {};
    return Error{"gemm " + describe(shape) + ": oneDNN: the product failed",
                 Error::Fault::Rank};
  }

private:
  /// The most rows that are gathered at once.
  static constexpr int64_t most = 64;

  uint64_t bytesPerThread() const {
    if (shape.isNarrow())
      return WidenedProduct::scratchBytes(shape.m, shape.n, shape.k);
    uint64_t floats = most * (shape.n + (ofRows ? shape.k : shape.m));
    return (floats * sizeof(float) + 63) / 64 * 64;
  }

  int64_t atA(int64_t m, int64_t k) const {
    return shape.transposeA ? k * shape.lda + m : m * shape.lda + k;
  }
  int64_t atB(int64_t k, int64_t n) const {
    return shape.transposeB ? n * shape.ldb + k : k * shape.ldb + n;
  }
  int64_t atC(const Block &block, int64_t row) const {
    return ofRows ? block.members.numbers[row] * shape.ldc
                  : block.c + row * shape.ldc;
  }

  /// The blocks of each group: all its rows, or as many as are gathered at
  /// once.
  std::vector<Block> blocksOfRows(const GemmOperands &operands,
                                  const Membership &membership) const {
    std::vector<Block> blocks;
    for (const Members &all : membership.getAll()) {
      Block block;
      for (int64_t e = 0; e < group.count; ++e)
        if (operands.ids[e] == membership.getGroup(all))
          block.products.push_back(e);
      int64_t step = all.areNeighbours ? all.count : most;
      for (int64_t done = 0; done < all.count; done += step) {
        block.rows = std::min(step, all.count - done);
        block.members = {all.numbers + done, block.rows, all.areNeighbours};
        blocks.push_back(block);
      }
    }
    return blocks;
  }

  std::vector<Block> blocksOfProducts(const GemmOperands &operands,
                                      const Membership &membership) const {
    std::vector<Block> blocks;
    for (int64_t e = 0; e < group.count; ++e)
      blocks.push_back(
          {membership.find(operands.ids[e]), {e}, shape.m, e * group.cStride});
    return blocks;
  }

  /// Cuts the blocks into tasks, depending only on the sizes and the groups.
  std::vector<Piece> cut(const std::vector<Block> &blocks) const {
    std::vector<Piece> pieces;
    for (const Block &block : blocks) {
      GemmShape one;
      one.m = block.rows, one.n = shape.n;
      one.k = ofRows ? shape.k : block.members.count;
      one.pieces = shape.pieces;
      one.batch.push_back({static_cast<int64_t>(blocks.size())});
      Tiling tiling(one);
      for (int64_t m0 = 0; m0 < one.m; m0 += tiling.tileM)
        for (int64_t n0 = 0; n0 < one.n; n0 += tiling.tileN)
          pieces.push_back({&block, m0, n0, std::min(tiling.tileM, one.m - m0),
                            std::min(tiling.tileN, one.n - n0)});
    }
    return pieces;
  }

  /// C = beta C, for rows without a product.
  bool scale(const GemmOperands &operands, const Piece &piece) const {
    for (int64_t m = 0; m < piece.rows; ++m) {
      float *c = static_cast<float *>(operands.c) +
                 atC(*piece.block, piece.m0 + m) + piece.n0;
      for (int64_t n = 0; n < piece.columns; ++n)
        c[n] = shape.beta == 0 ? 0 : shape.beta * c[n];
    }
    return true;
  }

  bool multiplyInPlace(const GemmOperands &operands, const Piece &piece) const {
    const Block &block = *piece.block;
    int64_t first = block.members.numbers[0];
    int64_t m0 = ofRows ? first + piece.m0 : piece.m0;
    int64_t k0 = ofRows ? 0 : first;
    float beta = shape.beta;
    const auto *a = static_cast<const float *>(operands.a),
               *b = static_cast<const float *>(operands.b);
    auto *c = static_cast<float *>(operands.c);
    for (int64_t e : block.products) {
      if (dnnl_sgemm(
              shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N',
              piece.rows, piece.columns, ofRows ? shape.k : block.members.count,
              shape.alpha, a + e * group.aStride + atA(m0, k0), shape.lda,
              b + e * group.bStride + atB(k0, piece.n0), shape.ldb, beta,
              c + atC(block, piece.m0) + piece.n0, shape.ldc) != dnnl_success)
        return false;
      beta = 1;
    }
    return true;
  }

  /// Multiplies rows that are not contiguous: gathers them, and scatters the
  /// results.
  bool multiplyRows(const GemmOperands &operands, const Piece &piece,
                    float *scratch) const {
    const Block &block = *piece.block;
    float *rows = scratch, *results = scratch + most * shape.k;
    const auto *b = static_cast<const float *>(operands.b);
    float beta = 0;
    for (int64_t e : block.products) {
      const float *a =
          static_cast<const float *>(operands.a) + e * group.aStride;
      for (int64_t m = 0; m < piece.rows; ++m)
        for (int64_t k = 0; k < shape.k; ++k)
          rows[m * shape.k + k] =
              a[atA(block.members.numbers[piece.m0 + m], k)];
      if (dnnl_sgemm('N', shape.transposeB ? 'T' : 'N', piece.rows,
                     piece.columns, shape.k, shape.alpha, rows, shape.k,
                     b + e * group.bStride + atB(0, piece.n0), shape.ldb, beta,
                     results, piece.columns) != dnnl_success)
        return false;
      beta = 1;
    }
    for (int64_t m = 0; m < piece.rows; ++m) {
      float *c = static_cast<float *>(operands.c) + atC(block, piece.m0 + m) +
                 piece.n0;
      for (int64_t n = 0; n < piece.columns; ++n)
        c[n] = results[m * piece.columns + n] +
               (shape.beta == 0 ? 0 : shape.beta * c[n]);
    }
    return true;
  }

  /// Sums over elements of the inner dim that are not contiguous: gathers a few
  /// at a time.
  bool sumProducts(const GemmOperands &operands, const Piece &piece,
                   float *scratch) const {
    const Block &block = *piece.block;
    float *left = scratch, *right = scratch + most * shape.m;
    float *c =
        static_cast<float *>(operands.c) + atC(block, piece.m0) + piece.n0;
    float beta = shape.beta;
    for (int64_t e : block.products) {
      const float *a =
          static_cast<const float *>(operands.a) + e * group.aStride;
      const float *b =
          static_cast<const float *>(operands.b) + e * group.bStride;
      for (int64_t done = 0; done < block.members.count; done += most) {
        int64_t count = std::min(most, block.members.count - done);
        for (int64_t l = 0; l < count; ++l) {
          int64_t k = block.members.numbers[done + l];
          for (int64_t m = 0; m < piece.rows; ++m)
            left[l * piece.rows + m] = a[atA(piece.m0 + m, k)];
          for (int64_t n = 0; n < piece.columns; ++n)
            right[l * piece.columns + n] = b[atB(k, piece.n0 + n)];
        }
        if (dnnl_sgemm('T', 'N', piece.rows, piece.columns, count, shape.alpha,
                       left, piece.rows, right, piece.columns, beta, c,
                       shape.ldc) != dnnl_success)
          return false;
        beta = 1;
      }
    }
    return true;
  }

  /// The members that are neighbours are read as a part of the matrix, others
  /// by their numbers.
  bool multiplyWidened(const GemmOperands &operands, const Piece &piece,
                       std::byte *scratch) const {
    const Block &block = *piece.block;
    const Members &members = block.members;
    const int64_t *numbers = members.areNeighbours ? nullptr : members.numbers;
    int64_t first =
        members.areNeighbours && members.count > 0 ? members.numbers[0] : 0;
    int64_t m0 = ofRows && !numbers ? first + piece.m0 : piece.m0;
    int64_t k0 = ofRows ? 0 : first;
    const int64_t *rows = ofRows && numbers ? numbers + piece.m0 : nullptr,
                  *terms = ofRows ? nullptr : numbers;
    int64_t element = bytesOf(shape.operands);
    std::vector<NarrowFactors> factors;
    for (int64_t e : block.products) {
      // Rows that have numbers are counted from the matrix's first.
      int64_t a = e * group.aStride + atA(rows ? 0 : m0, k0),
              b = e * group.bStride + atB(k0, piece.n0);
      factors.push_back(
          {{static_cast<const std::byte *>(operands.a) + a * element,
            shape.transposeA, shape.lda, rows, terms},
           {static_cast<const std::byte *>(operands.b) + b * element,
            shape.transposeB, shape.ldb, terms, nullptr}});
    }
    int64_t c = block.c + (rows ? 0 : m0) * shape.ldc + piece.n0;
    WidenedProduct product{shape.operands,
                           shape.result,
                           piece.rows,
                           piece.columns,
                           ofRows ? shape.k : members.count,
                           factors,
                           shape.alpha,
                           shape.beta,
                           static_cast<std::byte *>(operands.c) +
                               c * bytesOf(shape.result),
                           shape.ldc,
                           rows};
    return product.compute(scratch);
  }

  const GemmShape shape;
  const GemmBatchDim group;
  const int threads;
  const bool ofRows;
};

} // namespace

Result<std::unique_ptr<PreparedGemm>> prepareGroupedGemm(const GemmShape &shape,
                                                         int threads) {
  GemmLibrary expected =
      shape.isNarrow() ? GemmLibrary::Widened : GemmLibrary::Sgemm;
  if (shape.library != expected || shape.batch.size() != 1)
    return Error{"gemm " + describe(shape) +
                     ": groups are of one batch dim, and computed by " +
                     nameOf(expected),
                 Error::Fault::Rank};
  return std::unique_ptr<PreparedGemm>(new GroupedProducts(shape, threads));
}

} // namespace polyrank::runtime
