// Pairs of bf16: how they are packed and rounded, and their products.

#include "runtime/device/cpu/PairProducts.h"
#include "runtime/device/cpu/AttentionBlocks.h"
#include "runtime/device/cpu/OneDnn.h"
#include "support/Float16.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace polyrank::runtime::test {
namespace {

constexpr Pair untouched = 0xdeadbeef;

class PairProducts : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_TRUE(loadOneDnn());
    if (!hasTileProducts(TileProducts::BFloat16))
      GTEST_SKIP() << "this machine does not multiply pairs of bf16";
  }
};

/// Rows that are farther apart than they are long.
struct Matrix {
  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), stride(columns + 3),
        elements(rows * stride) {
    std::mt19937 random(static_cast<unsigned>(rows * 1000 + columns));
    for (uint16_t &element : elements) // multiples of 1/8 in [-1, 1]
      element = bfloat16FromFloat(
          static_cast<float>(static_cast<int>(random() % 17) - 8) / 8);
  }
  float at(int64_t i, int64_t j) const {
    return floatFromBFloat16(elements[i * stride + j]);
  }
  std::vector<float> floats() const {
    std::vector<float> result;
    for (uint16_t element : elements)
      result.push_back(floatFromBFloat16(element));
    return result;
  }

  int64_t rows, columns, stride;
  std::vector<uint16_t> elements;
};

std::vector<Pair> scratch(int64_t pairs) {
  return std::vector<Pair>(pairs + 16, untouched);
}
void expectNothingBehind(const std::vector<Pair> &pairs) {
  for (size_t i = pairs.size() - 16; i < pairs.size(); ++i)
    EXPECT_EQ(pairs[i], untouched) << "behind the pairs";
}

/// m x n with an inner dim of k.
const std::array<int64_t, 3> sizes[] = {
    {1, 1, 1},    {6, 64, 2},    {7, 65, 3},   {13, 17, 33}, {128, 256, 64},
    {5, 130, 40}, {12, 48, 193}, {9, 80, 400}, {31, 15, 16}, {2, 63, 31}};

/// How the factors come to be pairs.
enum class Right { Rows, Transposed };
enum class Left { Rows, Rounded, RoundedTransposed };

void expectProduct(std::array<int64_t, 3> size, Left leftKind, Right rightKind,
                   bool adds) {
  auto [m, n, k] = size;
  bool isTransposed = leftKind == Left::RoundedTransposed;
  Matrix a = isTransposed ? Matrix(k, m) : Matrix(m, k);
  Matrix b = rightKind == Right::Rows ? Matrix(k, n) : Matrix(n, k);
  std::vector<Pair> left =
      scratch(isTransposed ? countPairs(k) * m : m * countPairs(k));
  std::vector<Pair> right = scratch(countRightPairs(n, k));
  std::vector<float> floats = a.floats();
  LeftPairs leftPairs =
      leftKind == Left::Rows
          ? packLeft(a.elements.data(), a.stride, m, k, left.data())
      : leftKind == Left::Rounded
          ? roundLeft(floats.data(), a.stride, m, k, left.data())
          : roundTransposed(floats.data(), a.stride, k, m, left.data());
  RightPairs rightPairs =
      rightKind == Right::Rows
          ? packRight(b.elements.data(), b.stride, k, n, right.data())
          : packTransposed(b.elements.data(), b.stride, n, k, right.data());
  expectNothingBehind(left);
  expectNothingBehind(right);
  constexpr float before = 5, alpha = 0.25;
  int64_t ldc = n + 2;
  std::vector<float> c(m * ldc, before);
  multiplyPairs(m, n, countPairs(k), alpha, leftPairs, rightPairs, adds,
                c.data(), ldc);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      float expected = j < n && !adds ? 0 : before;
      for (int64_t l = 0; l < k && j < n; ++l)
        expected += alpha * (isTransposed ? a.at(l, i) : a.at(i, l)) *
                    (rightKind == Right::Rows ? b.at(l, j) : b.at(j, l));
      // Sums of so many multiples of 1/256 are exact.
      ASSERT_EQ(c[i * ldc + j], expected)
          << i << ", " << j << " of " << m << " x " << n << " x " << k;
    }
}

TEST_F(PairProducts, AreTheProductsOfTheirMatrices) {
  for (auto size : sizes)
    for (Left left : {Left::Rows, Left::Rounded, Left::RoundedTransposed})
      for (Right right : {Right::Rows, Right::Transposed})
        for (bool adds : {false, true})
          expectProduct(size, left, right, adds);
}

TEST_F(PairProducts, ReadAPartOfTheirFactors) {
  Matrix a(10, 20), b(130, 20);
  std::vector<Pair> left = scratch(10 * 10), right = scratch(144 * 10);
  LeftPairs leftPairs =
      packLeft(a.elements.data(), a.stride, 10, 20, left.data());
  RightPairs rightPairs =
      packTransposed(b.elements.data(), b.stride, 130, 20, right.data());
  constexpr int64_t m = 7, n = 70, pairs = 4;
  std::vector<float> c(m * n);
  multiplyPairs(m, n, pairs, 1, leftPairs, rightPairs, false, c.data(), n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float expected = 0;
      for (int64_t l = 0; l < 2 * pairs; ++l)
        expected += a.at(i, l) * b.at(j, l);
      ASSERT_EQ(c[i * n + j], expected) << i << ", " << j;
    }
}

TEST_F(PairProducts, RoundAsAllOtherCodeDoes) {
  // Every upper half, with lower halves below, at and above a tie; NaNs,
  // infinities and denormal numbers are among them.
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(__builtin_bit_cast(float, upper << 16 | lower));
  auto count = static_cast<int64_t>(values.size());
  std::vector<Pair> rows = scratch(count / 2), columns = scratch(count / 2);
  roundLeft(values.data(), count, 1, count, rows.data());
  // Two rows, whose elements of one column are a pair.
  roundTransposed(values.data(), count / 2, 2, count / 2, columns.data());
  auto expected = [&](int64_t i) { return Pair(bfloat16FromFloat(values[i])); };
  for (int64_t i = 0; i < count / 2; ++i) {
    ASSERT_EQ(rows[i], expected(2 * i) | expected(2 * i + 1) << 16) << i;
    ASSERT_EQ(columns[i], expected(i) | expected(count / 2 + i) << 16) << i;
  }
}

} // namespace
} // namespace polyrank::runtime::test
