// A strided view reads the same elements as the ops that it replaces.

#include "compiler/lowering/GemmForm.h"

#include "dialects/graph/Tensor.h"
#include <gtest/gtest.h>
#include <random>

using namespace polyrank;
using namespace polyrank::lowering;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {

/// Returns the number in the base of a view's element.
int64_t locate(const StridedView &view, ArrayRef<int64_t> index) {
  int64_t element = view.offset;
  for (auto [digits, i] : llvm::zip_equal(view.dims, index)) {
    int64_t rest = i;
    for (Digit digit : llvm::reverse(digits)) {
      element += rest % digit.size * digit.stride;
      rest /= digit.size;
    }
  }
  return element;
}

/// All elements of a view, in row-major order.
std::vector<int64_t> elementsOf(const StridedView &view) {
  std::vector<int64_t> elements;
  graph::forEachIndex(view.getShape(), [&](ArrayRef<int64_t> index) {
    elements.push_back(locate(view, index));
  });
  return elements;
}

std::vector<int64_t> transposed(ArrayRef<int64_t> elements,
                                ArrayRef<int64_t> shape,
                                ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> target;
  for (int64_t from : permutation)
    target.push_back(shape[from]);
  SmallVector<int64_t> strides = graph::getStrides(shape);
  std::vector<int64_t> result;
  graph::forEachIndex(target, [&](ArrayRef<int64_t> index) {
    int64_t source = 0;
    for (auto [i, from] : llvm::zip_equal(index, permutation))
      source += i * strides[from];
    result.push_back(elements[source]);
  });
  return result;
}

TEST(StridedView, ReshapesOfTransposesThatAreStridedReadTheRightElements) {
  std::mt19937 random(5);
  int strided = 0;
  for (int round = 0; round < 500; ++round) {
    SmallVector<int64_t> shape = {2, 6, 4, 3};
    std::shuffle(shape.begin(), shape.end(), random);
    StridedView view = StridedView::whole(shape);
    std::vector<int64_t> expected = elementsOf(view);
    for (int step = 0; step < 3; ++step) {
      SmallVector<int64_t> permutation(shape.size());
      for (size_t i = 0; i < permutation.size(); ++i)
        permutation[i] = i;
      std::shuffle(permutation.begin(), permutation.end(), random);
      expected = transposed(expected, shape, permutation);
      view.transpose(permutation);
      shape = view.getShape();
      EXPECT_EQ(elementsOf(view), expected);
      // Merges two neighbouring dims or splits one.
      if (random() % 2 && shape.size() > 1) {
        size_t d = random() % (shape.size() - 1);
        shape[d] *= shape[d + 1];
        shape.erase(shape.begin() + d + 1);
      } else {
        size_t d = random() % shape.size();
        if (shape[d] % 2 == 0) {
          shape[d] /= 2;
          shape.insert(shape.begin() + d, 2);
        }
      }
      if (!view.reshape(shape))
        break;
      ++strided;
      EXPECT_EQ(elementsOf(view), expected);
    }
  }
  EXPECT_GT(strided, 500);
}

TEST(StridedView, AReshapeAcrossFactorsThatDoNotNestIsRefused) {
  StridedView view = StridedView::whole({2, 3});
  view.transpose({1, 0});
  EXPECT_FALSE(view.reshape({2, 3}));
  // In memory order any reshape is strided.
  StridedView whole = StridedView::whole({2, 3});
  ASSERT_TRUE(whole.reshape({3, 2}));
  EXPECT_EQ(elementsOf(whole), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(StridedView, SlicesMoveTheOffsetAndWidenTheStride) {
  StridedView view = StridedView::whole({4, 6});
  ASSERT_TRUE(view.slice({1, 0}, {3, 6}, {1, 2}));
  EXPECT_EQ(elementsOf(view), (std::vector<int64_t>{6, 8, 10, 12, 14, 16}));
}

TEST(StridedView, BroadcastsRepeat) {
  StridedView view = StridedView::whole({3});
  view.broadcast({2, 3}, {1});
  EXPECT_EQ(elementsOf(view), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
}

TEST(Refine, ListsAreCutAtEachOthersBoundaries) {
  SmallVector<Digit, 2> lists[] = {{{2, 12}, {6, 1}}, {{4, 3}, {3, 1}}};
  ASSERT_TRUE(refine(lists));
  EXPECT_EQ(lists[0], (SmallVector<Digit, 2>{{2, 12}, {2, 3}, {3, 1}}));
  EXPECT_EQ(lists[1], (SmallVector<Digit, 2>{{2, 6}, {2, 3}, {3, 1}}));
  SmallVector<Digit, 2> unlike[] = {{{2, 3}, {3, 1}}, {{3, 2}, {2, 1}}};
  EXPECT_FALSE(refine(unlike));
}

/// A GEMM with more rows than columns takes longer.
double estimate(int64_t m, int64_t n, int64_t k, int64_t products) {
  return static_cast<double>(products * (3 * m + n + k));
}

/// Computes a gemm form on numbered elements and compares it with the
/// contraction's sum.
void expectComputes(const ContractionDims &dims, const StridedView &lhs,
                    const StridedView &rhs, const StridedView &result) {
  auto form = findGemmForm(dims, lhs, rhs, result, estimate);
  ASSERT_TRUE(form);
  auto value = [](int64_t element, int64_t salt) {
    return (element * 7919 + salt) % 1013;
  };
  std::map<int64_t, int64_t> computed;
  SmallVector<int64_t> counts;
  for (size_t d = 0; d < form->batch.size(); d += 4)
    counts.push_back(form->batch[d]);
  graph::forEachIndex(counts, [&](ArrayRef<int64_t> t) {
    int64_t a = form->aAccess[0], b = form->bAccess[0], c = 0;
    for (size_t d = 0; d < t.size(); ++d) {
      a += t[d] * form->batch[4 * d + 1];
      b += t[d] * form->batch[4 * d + 2];
      c += t[d] * form->batch[4 * d + 3];
    }
    for (int64_t i = 0; i < form->sizes[0]; ++i)
      for (int64_t j = 0; j < form->sizes[1]; ++j)
        for (int64_t l = 0; l < form->sizes[2]; ++l)
          computed[c + i * form->row + j] +=
              value(a + i * form->aAccess[1] + l * form->aAccess[2],
                    form->swapped ? 2 : 1) *
              value(b + l * form->bAccess[1] + j * form->bAccess[2],
                    form->swapped ? 1 : 2);
  });
  std::map<int64_t, int64_t> expected;
  SmallVector<int64_t> lhsShape = lhs.getShape(), rhsShape = rhs.getShape(),
                       loops;
  for (int64_t d : dims.lhsBatch)
    loops.push_back(lhsShape[d]);
  for (int64_t d : dims.lhsFree)
    loops.push_back(lhsShape[d]);
  for (int64_t d : dims.rhsFree)
    loops.push_back(rhsShape[d]);
  size_t numResult = loops.size();
  for (int64_t d : dims.lhsContract)
    loops.push_back(lhsShape[d]);
  graph::forEachIndex(loops, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> l(lhsShape.size()), r(rhsShape.size());
    size_t next = 0;
    for (auto [i, d] : llvm::enumerate(dims.lhsBatch))
      l[d] = r[dims.rhsBatch[i]] = index[next++];
    for (int64_t d : dims.lhsFree)
      l[d] = index[next++];
    for (int64_t d : dims.rhsFree)
      r[d] = index[next++];
    for (auto [i, d] : llvm::enumerate(dims.lhsContract))
      l[d] = r[dims.rhsContract[i]] = index[next++];
    expected[locate(result, index.take_front(numResult))] +=
        value(locate(lhs, l), 1) * value(locate(rhs, r), 2);
  });
  EXPECT_EQ(computed, expected);
}

TEST(GemmForm, ContractionsOfTransformersAreComputedInPlace) {
  // Attention's products read [batch, sequence, heads, width] in place.
  StridedView query = StridedView::whole({2, 4, 3, 8});
  query.transpose({0, 2, 1, 3});
  StridedView key = query;
  StridedView scores = StridedView::whole({2, 3, 4, 4});
  expectComputes({{0, 1}, {0, 1}, {3}, {3}, {2}, {2}}, query, key, scores);
  // The result written as [batch, sequence, heads, width].
  StridedView output = StridedView::whole({2, 4, 3, 8});
  output.transpose({0, 2, 1, 3});
  expectComputes({{0, 1}, {0, 1}, {3}, {2}, {2}, {3}}, scores, key, output);
  // A fused projection to several dims, and its weight gradient.
  StridedView x = StridedView::whole({2, 4, 16}),
              w = StridedView::whole({16, 3, 2, 8});
  expectComputes({{}, {}, {2}, {0}, {0, 1}, {1, 2, 3}}, x, w,
                 StridedView::whole({2, 4, 3, 2, 8}));
  expectComputes({{}, {}, {0, 1}, {0, 1}, {2}, {2, 3, 4}}, x,
                 StridedView::whole({2, 4, 3, 2, 8}),
                 StridedView::whole({16, 3, 2, 8}));
  // One column, one row, one element.
  expectComputes({{}, {}, {1}, {0}, {0}, {1}}, StridedView::whole({4, 6}),
                 StridedView::whole({6, 1}), StridedView::whole({4, 1}));
  expectComputes({{}, {}, {0}, {0}, {}, {}}, StridedView::whole({6}),
                 StridedView::whole({6}),
                 StridedView::whole(ArrayRef<int64_t>()));
  // The result transposed: operands change places.
  StridedView turned = StridedView::whole({5, 4});
  turned.transpose({1, 0});
  expectComputes({{}, {}, {1}, {0}, {0}, {1}}, StridedView::whole({4, 6}),
                 StridedView::whole({6, 5}), turned);
}

TEST(GemmForm, OperandsThatChangePlacesKeepTheirOffsets) {
  StridedView lhs = StridedView::whole({5, 6}),
              rhs = StridedView::whole({6, 9});
  ASSERT_TRUE(lhs.slice({1, 0}, {5, 6}, {1, 1}));
  ASSERT_TRUE(rhs.slice({0, 4}, {6, 9}, {1, 1}));
  ASSERT_NE(lhs.offset, rhs.offset);
  ContractionDims dims = {{}, {}, {1}, {0}, {0}, {1}};
  StridedView result = StridedView::whole({4, 5}),
              turned = StridedView::whole({5, 4});
  turned.transpose({1, 0});
  EXPECT_FALSE(findGemmForm(dims, lhs, rhs, result, estimate)->swapped);
  EXPECT_TRUE(findGemmForm(dims, lhs, rhs, turned, estimate)->swapped);
  expectComputes(dims, lhs, rhs, result);
  expectComputes(dims, lhs, rhs, turned);
}

TEST(GemmForm, TheEstimateDecidesWhichLoopsAreRowsAndColumns) {
  // One product of 6 rows and 8 columns, or 6 of one row, or 8 of one column.
  ContractionDims dims = {{}, {}, {1}, {0}, {0}, {1}};
  StridedView lhs = StridedView::whole({6, 5}),
              rhs = StridedView::whole({5, 8}),
              result = StridedView::whole({6, 8});
  auto sizes = [&](EstimateProducts estimate) {
    return findGemmForm(dims, lhs, rhs, result, estimate)->sizes;
  };
  using Sizes = SmallVector<int64_t>;
  EXPECT_EQ(sizes([](int64_t, int64_t, int64_t, int64_t products) {
              return static_cast<double>(products);
            }),
            (Sizes{6, 8, 5}));
  EXPECT_EQ(sizes([](int64_t m, int64_t, int64_t, int64_t) {
              return static_cast<double>(m);
            })[0],
            1);
  EXPECT_EQ(sizes([](int64_t, int64_t n, int64_t, int64_t) {
              return static_cast<double>(n);
            })[1],
            1);
}

TEST(GemmForm, AContractionThatNoCallComputesHasNone) {
  // Contracted over two dims that lie in another order in the right operand.
  StridedView lhs = StridedView::whole({4, 3, 5}),
              rhs = StridedView::whole({5, 3, 4});
  EXPECT_FALSE(findGemmForm({{}, {}, {1, 2}, {1, 0}, {0}, {2}}, lhs, rhs,
                            StridedView::whole({4, 4}), estimate));
}

} // namespace
