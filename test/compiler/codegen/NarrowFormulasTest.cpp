// Formulas and composites of bf16 and f16: each op's result is rounded once,
// however ops are fused.

#include <cmath>

#include <gtest/gtest.h>

#include "dialects/graph/ElementTypes.h"
#include "test/compiler/codegen/KernelRunner.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::Tensor;

namespace {

/// `text` with the narrow type in place of each N.
std::string ofType(std::string text, const std::string &type) {
  for (size_t at; (at = text.find('N')) != std::string::npos;)
    text.replace(at, 1, type);
  return text;
}

/// Runs a function as kernels, fused and not, in several partitions. All give
/// the same bits. Expects of the results of narrow floats that they are what
/// evaluation with the types' roundings gives, up to `roundings` roundings to
/// neighbours, and of the others that they have the tolerance of f32; `length`
/// is that of the longest sum.
void check(const std::string &text, double roundings, int64_t length = 1,
           double low = -4, double high = 4) {
  for (const char *type : {"bf16", "f16"}) {
    std::string typed = ofType(text, type);
    SCOPED_TRACE(typed);
    KernelRunner fused(typed), unfused(typed, /*fuse=*/false),
        lowest(typed, /*fuse=*/true, "x86-64-v3");
    ASSERT_FALSE(testing::Test::HasFailure());
    std::vector<Tensor> inputs;
    std::vector<Bytes> bytes;
    for (auto [i, input] : llvm::enumerate(fused.getType().getInputs())) {
      inputs.push_back(
          randomTensor(cast<RankedTensorType>(input), low, high, i));
      bytes.push_back(toBytes(inputs.back()));
    }
    std::vector<Tensor> expected =
        fused.evaluate(inputs, graph::Rounding::OfTypes);
    std::vector<Bytes> results = fused.run(bytes);
    EXPECT_EQ(fused.run(bytes, 1, true), results) << "items one by one";
    EXPECT_EQ(fused.runInPlace(bytes), results) << "in place";
    EXPECT_EQ(unfused.run(bytes), results) << "not fused";
    if (length == 1) { // the order of a sum is the vectors'
      EXPECT_EQ(lowest.run(bytes), results) << "with vectors of 256 bits";
    }
    for (auto [i, result] : llvm::enumerate(results)) {
      auto kind = cast<RankedTensorType>(fused.getType().getResult(i));
      Tensor found = fromBytes(result, kind);
      if (!found.isFloat()) {
        EXPECT_EQ(found.integers, expected[i].integers);
        continue;
      }
      auto element = cast<FloatType>(kind.getElementType());
      // Functions of kernels are within 2 ulp of f32.
      double tolerance = graph::isNarrow(element)
                             ? roundings * 2 * graph::getTolerance(element)
                             : 4 * graph::getTolerance(element, length) * 8;
      for (int64_t at = 0; at < found.size(); ++at) {
        double x = found.at(at), y = expected[i].at(at);
        if (x != y && !(std::isnan(x) && std::isnan(y))) {
          ASSERT_LE(std::abs(x - y), tolerance * std::abs(y) + 0x1p-24)
              << "result " << i << ", element " << at << ": " << x
              << " instead of " << y;
        }
      }
    }
  }
}

} // namespace

TEST(NarrowFormulas, TolerancesFollowFromTypesAndSums) {
  MLIRContext context;
  FloatType brain = BFloat16Type::get(&context),
            half = Float16Type::get(&context),
            single = Float32Type::get(&context),
            twice = Float64Type::get(&context);
  EXPECT_EQ(graph::getTolerance(brain), 0x1p-8);
  EXPECT_EQ(graph::getTolerance(half), 0x1p-11);
  EXPECT_EQ(graph::getTolerance(single), 0x1p-24);
  // Sums are formed in f32, or in f64.
  EXPECT_EQ(graph::getTolerance(brain, 10000), 0x1p-8 + 200 * 0x1p-24);
  EXPECT_EQ(graph::getTolerance(single, 10000), 201 * 0x1p-24);
  EXPECT_EQ(graph::getTolerance(twice, 10000), 201 * 0x1p-53);
}

/// f32 has more than twice the digits of a narrow float, so rounding twice is
/// rounding once: Figueroa, When is double rounding innocuous? (1995).
TEST(NarrowFormulas, ArithmeticIsTheRoundedReferenceToTheBit) {
  check(R"mlir(
func.func @main(%x: tensor<3x333xN>, %y: tensor<3x333xN>) -> (tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xi1>, tensor<3x333xN>, tensor<3x333xN>) {
  %0 = graph.add %x, %y : tensor<3x333xN>
  %1 = graph.sub %0, %x : tensor<3x333xN>
  %2 = graph.mul %1, %x : tensor<3x333xN>
  %3 = graph.abs %y : tensor<3x333xN>
  %4 = graph.sqrt %3 : tensor<3x333xN>
  %5 = graph.div %x, %4 : tensor<3x333xN>
  %6 = graph.compare lt %5, %2 : (tensor<3x333xN>, tensor<3x333xN>) -> tensor<3x333xi1>
  %7 = graph.select %6, %5, %2 : (tensor<3x333xi1>, tensor<3x333xN>, tensor<3x333xN>) -> tensor<3x333xN>
  %8 = graph.max %7, %1 : tensor<3x333xN>
  %9 = graph.neg %8 : tensor<3x333xN>
  %10 = graph.floor %9 : tensor<3x333xN>
  return %0, %1, %2, %4, %5, %9, %6, %7, %10 : tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xN>, tensor<3x333xi1>, tensor<3x333xN>, tensor<3x333xN>
}
)mlir",
        /*roundings=*/0);
}

/// Each of several thousand results is the nearest number or its neighbour; if
/// every step of a formula rounded, some would be further.
TEST(NarrowFormulas, AFormulaIsRoundedAtItsEnd) {
  for (const char *op : {"sigmoid", "exp", "tanh", "erf", "rsqrt", "sin",
                         "silu", "gelu tanh", "gelu erf"}) {
    bool ofPositive = std::string(op) == "rsqrt";
    check("func.func @main(%x: tensor<5x333xN>) -> tensor<5x333xN> {\n  %0 = "
          "graph." +
              std::string(op) +
              " %x : tensor<5x333xN>\n  return %0 : tensor<5x333xN>\n}\n",
          /*roundings=*/1, 1, ofPositive ? 0.1 : -4);
  }
}

TEST(NarrowFormulas, DropoutAndUniformAreRoundedOnce) {
  check(R"mlir(
func.func @main(%x: tensor<5x333xN>, %s: tensor<i64>) -> (tensor<5x333xN>, tensor<5x333xN>) {
  %0 = graph.dropout %x, %s, %s, %s {rate = 0.3 : f64, rng_id = 5 : i64} : (tensor<5x333xN>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<5x333xN>
  %1 = graph.uniform %s, %s, %s {rng_id = 3 : i64} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<5x333xN>
  return %0, %1 : tensor<5x333xN>, tensor<5x333xN>
}
)mlir",
        /*roundings=*/1);
}

TEST(NarrowFormulas, CompositesAreRoundedOnce) {
  check(R"mlir(
func.func @main(%x: tensor<7x300xN>, %d: tensor<7x300xN>) -> (tensor<7x300xN>, tensor<7x300xN>) {
  %0 = graph.softmax %x {dim = 1 : i64} : (tensor<7x300xN>) -> tensor<7x300xN>
  %1 = graph.gelu_grad tanh %d, %x : tensor<7x300xN>
  return %0, %1 : tensor<7x300xN>, tensor<7x300xN>
}
)mlir",
        /*roundings=*/1);
}

/// The statistics, in f32, have the digits of f32.
TEST(NarrowFormulas, NormsAreRoundedOnceAndTheirStatisticsAreFloats) {
  check(R"mlir(
func.func @main(%x: tensor<9x300xN>, %s: tensor<300xN>, %b: tensor<300xN>) -> (tensor<9x300xN>, tensor<9xf32>, tensor<9xf32>, tensor<9x300xN>, tensor<9xf32>) {
  %0:3 = graph.layer_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<9x300xN>, tensor<300xN>, tensor<300xN>) -> (tensor<9x300xN>, tensor<9xf32>, tensor<9xf32>)
  %1:2 = graph.rms_norm %x, %s {epsilon = 1.0e-5 : f64} : (tensor<9x300xN>, tensor<300xN>) -> (tensor<9x300xN>, tensor<9xf32>)
  return %0#0, %0#1, %0#2, %1#0, %1#1 : tensor<9x300xN>, tensor<9xf32>, tensor<9xf32>, tensor<9x300xN>, tensor<9xf32>
}
)mlir",
        /*roundings=*/1, /*length=*/300, 0.5, 4);
}

/// Liger-Kernel's gradient of a scale was a sum in bf16: 4,096 rows.
TEST(NarrowFormulas, TheGradientOfAScaleIsASumOfFloats) {
  for (const char *type : {"bf16", "f16"}) {
    KernelRunner kernels(ofType(R"mlir(
func.func @main(%d: tensor<4096x8xN>, %x: tensor<4096x8xN>, %s: tensor<8xN>, %r: tensor<4096xf32>) -> tensor<8xN> {
  %0:2 = graph.rms_norm_grad %d, %x, %s, %r : (tensor<4096x8xN>, tensor<4096x8xN>, tensor<8xN>, tensor<4096xf32>) -> (tensor<4096x8xN>, tensor<8xN>)
  return %0#1 : tensor<8xN>
}
)mlir",
                                type));
    ASSERT_FALSE(testing::Test::HasFailure());
    std::vector<Bytes> ones;
    for (Type input : kernels.getType().getInputs())
      ones.push_back(toBytes(Tensor::splat(cast<RankedTensorType>(input), 1)));
    Tensor sums =
        fromBytes(kernels.run(ones)[0],
                  cast<RankedTensorType>(kernels.getType().getResult(0)));
    EXPECT_EQ(sums.floats, std::vector<double>(8, 4096));
  }
}

/// lse has the digits of f32, and the loss those of the logits.
TEST(NarrowFormulas, TheSumOfALossIsAFloat) {
  check(R"mlir(
func.func @main(%x: tensor<9x300xN>, %l: tensor<9xi64>) -> (tensor<9xN>, tensor<9xf32>, tensor<9x300xN>) {
  %0:2 = graph.cross_entropy %x, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<9x300xN>, tensor<9xi64>) -> (tensor<9xN>, tensor<9xf32>)
  %1 = graph.cross_entropy_grad %0#0, %x, %l, %0#1 {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<9xN>, tensor<9x300xN>, tensor<9xi64>, tensor<9xf32>) -> tensor<9x300xN>
  return %0#0, %0#1, %1 : tensor<9xN>, tensor<9xf32>, tensor<9x300xN>
}
)mlir",
        /*roundings=*/3, /*length=*/300, 0, 4);
}
