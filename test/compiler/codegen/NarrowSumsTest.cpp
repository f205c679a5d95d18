// Sums of bf16 and f16: they are formed in f32 and rounded once, whatever the
// kernel schedule.

#include <cmath>

#include <gtest/gtest.h>

#include "test/compiler/codegen/KernelRunner.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::Tensor;

namespace {

struct Case {
  const char *type;
  int64_t rows, columns;
};

/// The sums of a matrix over its columns, its rows and both.
std::string sumsOf(const Case &of) {
  std::string rows = std::to_string(of.rows),
              columns = std::to_string(of.columns);
  auto tensor = [&](std::string shape) {
    return "tensor<" + shape + of.type + ">";
  };
  std::string x = tensor(rows + "x" + columns + "x"), a = tensor(rows + "x"),
              b = tensor(columns + "x"), c = tensor("");
  auto sum = [&](const char *name, const char *dims, const std::string &to) {
    return std::string("  ") + name + " = graph.reduce sum %x over [" + dims +
           "] : (" + x + ") -> " + to + "\n";
  };
  return "func.func @main(%x: " + x + ") -> (" + a + ", " + b + ", " + c +
         ") {\n" + sum("%0", "1", a) + sum("%1", "0", b) +
         sum("%2", "0, 1", c) + "  return %0, %1, %2 : " + a + ", " + b + ", " +
         c + "\n}\n";
}

class NarrowSums : public testing::TestWithParam<Case> {};

} // namespace

/// In the type itself a sum of equal numbers stops growing at 256 (bf16) or
/// 2,048 (f16) of them.
TEST_P(NarrowSums, OfEqualNumbersAreExactUpToOneRounding) {
  KernelRunner kernels(sumsOf(GetParam()));
  ASSERT_FALSE(testing::Test::HasFailure());
  double value = 0.125;
  Tensor x = Tensor::splat(
      cast<RankedTensorType>(kernels.getType().getInput(0)), value);
  std::vector<Bytes> results = kernels.run({toBytes(x)});
  for (auto [i, bytes] : llvm::enumerate(results)) {
    auto type = cast<RankedTensorType>(kernels.getType().getResult(i));
    Tensor sums = fromBytes(bytes, type);
    double expected = graph::roundTo(cast<FloatType>(type.getElementType()),
                                     value * static_cast<double>(x.size()) /
                                         static_cast<double>(sums.size()));
    for (double sum : sums.floats)
      ASSERT_EQ(sum, expected) << "result " << i;
  }
}

TEST_P(NarrowSums, AreTheRoundedReference) {
  KernelRunner kernels(sumsOf(GetParam()));
  ASSERT_FALSE(testing::Test::HasFailure());
  Tensor x = randomTensor(cast<RankedTensorType>(kernels.getType().getInput(0)),
                          -1, 1, 7);
  std::vector<Tensor> expected =
      kernels.evaluate({x}, graph::Rounding::OfTypes);
  std::vector<Bytes> results = kernels.run({toBytes(x)});
  ASSERT_EQ(results.size(), expected.size());
  for (auto [i, bytes] : llvm::enumerate(results)) {
    Tensor sums = fromBytes(
        bytes, cast<RankedTensorType>(kernels.getType().getResult(i)));
    // A sum in another order may round to the neighbouring number.
    auto type = cast<FloatType>(sums.elementType);
    double tolerance = 2 * graph::getTolerance(type, x.size() / sums.size());
    for (auto [sum, reference] :
         llvm::zip_equal(sums.floats, expected[i].floats))
      ASSERT_NEAR(sum, reference, tolerance * (std::abs(reference) + 0x1p-10))
          << "result " << i;
  }
}

/// The largest and the smallest of narrow floats are among them.
TEST(NarrowFloats, HaveExtremaInEverySchedule) {
  for (const char *type : {"bf16", "f16"})
    for (const char *kind : {"max", "min"}) {
      std::string text = sumsOf({type, 45, 37});
      for (size_t at; (at = text.find("reduce sum")) != std::string::npos;)
        text.replace(at, 10, std::string("reduce ") + kind);
      SCOPED_TRACE(text);
      KernelRunner kernels(text);
      ASSERT_FALSE(testing::Test::HasFailure());
      Tensor x = randomTensor(
          cast<RankedTensorType>(kernels.getType().getInput(0)), -1, 1, 7);
      std::vector<Tensor> expected = kernels.evaluate({x});
      std::vector<Bytes> results = kernels.run({toBytes(x)});
      for (auto [i, bytes] : llvm::enumerate(results))
        EXPECT_EQ(fromBytes(bytes, cast<RankedTensorType>(
                                       kernels.getType().getResult(i)))
                      .floats,
                  expected[i].floats)
            << "result " << i;
    }
}

/// In bf16 the sum would stop at 256. The updates may be many, and the sums may
/// begin with others.
TEST(NarrowFloats, AreScatteredIntoSumsOfFloats) {
  KernelRunner kernels(R"mlir(
func.func @main(%i: tensor<512xi64>, %x: tensor<512x3xbf16>, %y: tensor<512x37xf16>, %z: tensor<2x37xf32>) -> (tensor<2x3xf32>, tensor<2x37xf32>) {
  %0 = graph.scatter_add %i, %x {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<512xi64>, tensor<512x3xbf16>) -> tensor<2x3xf32>
  %1 = graph.scatter_add %i, %y {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<512xi64>, tensor<512x37xf16>) -> tensor<2x37xf32>
  %2 = graph.add %z, %1 : tensor<2x37xf32>
  return %0, %2 : tensor<2x3xf32>, tensor<2x37xf32>
}
)mlir");
  ASSERT_FALSE(testing::Test::HasFailure());
  auto splat = [&](unsigned i, double value) {
    return toBytes(Tensor::splat(
        cast<RankedTensorType>(kernels.getType().getInput(i)), value));
  };
  std::vector<Bytes> results =
      kernels.run({splat(0, 0), splat(1, 1), splat(2, 8), splat(3, 0.5)});
  auto floats = [&](unsigned i) {
    return fromBytes(results[i],
                     cast<RankedTensorType>(kernels.getType().getResult(i)))
        .floats;
  };
  EXPECT_EQ(floats(0), (std::vector<double>{512, 512, 512, 0, 0, 0}));
  std::vector<double> expected(37, 4096.5);
  expected.resize(74, 0.5);
  EXPECT_EQ(floats(1), expected);
}

/// 256 + 1 + 1 is 258 in bf16 only if nothing is rounded in between.
TEST(NarrowFloats, AreFoldedIntoSumsThatAreRoundedOnce) {
  KernelRunner kernels(R"mlir(
func.func @main(%x: tensor<33x3xbf16>) -> tensor<35xbf16> {
  %0 = graph.fold %x {dim = 0 : i64, stride = 1 : i64, dilation = 1 : i64} : (tensor<33x3xbf16>) -> tensor<35xbf16>
  return %0 : tensor<35xbf16>
}
)mlir");
  ASSERT_FALSE(testing::Test::HasFailure());
  auto type = cast<RankedTensorType>(kernels.getType().getInput(0));
  Tensor x = Tensor::splat(type, 1);
  for (int64_t i = 0; i < x.size(); i += 3)
    x.floats[i] = 256;
  Tensor sums =
      fromBytes(kernels.run({toBytes(x)})[0],
                cast<RankedTensorType>(kernels.getType().getResult(0)));
  EXPECT_EQ(sums.floats,
            kernels.evaluate({x}, graph::Rounding::OfTypes)[0].floats);
  EXPECT_EQ(sums.floats[2], 258);
}

INSTANTIATE_TEST_SUITE_P(
    TypesAndShapes, NarrowSums,
    testing::Values(Case{"bf16", 4, 1000}, Case{"bf16", 1000, 37},
                    Case{"bf16", 300, 1000}, Case{"bf16", 3, 1},
                    Case{"f16", 4, 5000}, Case{"f16", 5000, 17},
                    Case{"f16", 300, 1000}));
