// Shapes of GEMMs, and groups of their rows, for tests of products of all
// element types.

#pragma once

#include "runtime/device/cpu/GemmShape.h"

#include <algorithm>
#include <array>

namespace polyrank::runtime::test {

/// Leading dims are `pad` elements larger than they need to be.
inline GemmShape shapeFrom(int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                           int64_t pad, std::vector<GemmBatchDim> batch = {}) {
  GemmShape shape;
  shape.m = m, shape.n = n, shape.k = k;
  shape.transposeA = ta, shape.transposeB = tb;
  shape.lda = (ta ? m : k) + pad, shape.ldb = (tb ? k : n) + pad;
  shape.ldc = n + pad;
  shape.batch = std::move(batch);
  return shape;
}

/// Thin and square products, batches that can be folded and that cannot, with
/// all transposes; attention; a scaled sum.
inline std::vector<GemmShape> shapes() {
  std::vector<GemmShape> result;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      result.push_back(shapeFrom(3, 5, 7, ta, tb, 0));
      result.push_back(shapeFrom(1, 300, 129, ta, tb, 2));
      result.push_back(shapeFrom(300, 1, 129, ta, tb, 1));
      result.push_back(shapeFrom(65, 400, 128, ta, tb, 3));
      result.push_back(shapeFrom(8, 4, 40000, ta, tb, 0));
      // A batch that shares b, and is folded into rows.
      result.push_back(shapeFrom(20, 30, 40, ta, tb, 0, {{5, 800, 0, 600}}));
      // Batches that are not folded: other operands, or gaps.
      for (GemmBatchDim batch : {GemmBatchDim{5, 800, 1200, 600},
                                 {5, 840, 0, 600},
                                 {5, 800, 0, 640}})
        result.push_back(shapeFrom(20, 30, 40, ta, tb, 0, {batch}));
      result.push_back(shapeFrom(20, 30, 20, ta, tb, 0, {{5, 400, 0, 600}}));
      // Two dims that merge, and that do not because of one operand.
      for (GemmBatchDim outer : {GemmBatchDim{2, 126, 189, 96},
                                 {2, 127, 189, 96},
                                 {2, 126, 190, 96},
                                 {2, 126, 189, 97}})
        result.push_back(
            shapeFrom(4, 8, 7, ta, tb, 0, {outer, {3, 42, 63, 32}}));
    }
  // Attention: products of batch x heads, the heads interleaved in the rows.
  constexpr int64_t length = 16, heads = 3, width = 8;
  GemmShape scores =
      shapeFrom(length, length, width, false, true, 0,
                {{2, length * heads * width, length * heads * width,
                  heads * length * length},
                 {heads, width, width, length * length}});
  scores.lda = scores.ldb = heads * width;
  result.push_back(scores);
  GemmShape scaled = shapeFrom(30, 40, 50, false, true, 0);
  scaled.alpha = 0.125f, scaled.beta = 1;
  result.push_back(scaled);
  return result;
}

/// The group of each row, or of each element of the inner dim.
struct Groups {
  std::vector<int64_t> groups, ids;
};

/// Sorted and not, groups that are empty, have no product, or have two.
inline std::vector<Groups> groupsOf(int64_t count) {
  std::vector<Groups> result;
  auto sorted = [&](std::vector<int64_t> ends) {
    std::vector<int64_t> groups;
    for (int64_t i = 0; i < count; ++i)
      groups.push_back(std::upper_bound(ends.begin(), ends.end(), i) -
                       ends.begin());
    return groups;
  };
  result.push_back({sorted({count / 3, count / 2, count}), {0, 1, 2}});
  result.push_back({sorted({0, 0, count}), {0, 1, 2}});
  result.push_back({sorted({1, 2, 3}), {0, 1, 2}}); // others in group 3
  result.push_back({sorted({count / 2, count}), {7, 1, 0}});
  result.push_back({sorted({count / 2, count}), {1, 0, 1}});
  result.push_back({std::vector<int64_t>(count, -5), {0, 1, 2}});
  std::vector<int64_t> mixed;
  for (int64_t i = 0; i < count; ++i)
    mixed.push_back(i * i % 5 - 1);
  result.push_back({mixed, {0, 2, 3}});
  return result;
}

/// Grouped products with gaps between rows and between matrices.
inline std::vector<GemmShape> groupedShapes() {
  std::vector<GemmShape> result;
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (auto [m, n, k] :
           {std::array{9, 5, 7}, {1, 33, 1}, {90, 400, 64}, {300, 2, 430}})
        for (bool ofRows : {true, false})
          for (float beta : {0.f, 1.f}) {
            GemmShape shape = shapeFrom(m, n, k, ta, tb, 2);
            shape.grouped = ofRows ? GemmGroups::Rows : GemmGroups::Inner;
            shape.beta = beta;
            shape.alpha = beta == 0 ? 1 : 0.5f;
            int64_t matrix = (tb ? n : k) * shape.ldb + 1;
            shape.batch = {ofRows ? GemmBatchDim{3, 0, matrix, 0}
                                  : GemmBatchDim{3, 0, 0, m * shape.ldc}};
            result.push_back(shape);
          }
  return result;
}

} // namespace polyrank::runtime::test
