// Kernels against the reference implementation of their ops, over shapes,
// element types and partitions.

#include <cstring>

#include <gtest/gtest.h>

#include "runtime/device/cpu/ElfCheck.h"
#include "test/compiler/codegen/KernelRunner.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::Tensor;

/// Returns `text` with each $X replaced.
static std::string
withSizes(std::string text,
          std::initializer_list<std::pair<char, int64_t>> sizes) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      result += text[i];
      continue;
    }
    ++i;
    for (auto [name, size] : sizes)
      if (name == text[i])
        result += std::to_string(size);
  }
  return result;
}

/// The largest |a - b| / (1 + |b|), where NaN equals NaN and infinities equal
/// themselves.
static double distance(const Tensor &a, const Tensor &b) {
  double largest = 0;
  for (int64_t i = 0, n = a.size(); i < n; ++i) {
    double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    double difference = std::abs(x - y) / (1 + std::abs(y));
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

/// Runs a function of graph ops as kernels, fused and not, in several
/// partitions: all give the same bits, and agree with the reference up to
/// `tolerance`.
static void check(const std::string &text, double tolerance = 1e-6,
                  double low = -4, double high = 4) {
  SCOPED_TRACE(text);
  KernelRunner fused(text);
  if (testing::Test::HasFailure())
    return;
  std::vector<Tensor> inputs;
  std::vector<Bytes> bytes;
  for (auto [i, type] : llvm::enumerate(fused.getType().getInputs())) {
    inputs.push_back(randomTensor(cast<RankedTensorType>(type), low, high, i));
    bytes.push_back(toBytes(inputs.back()));
  }
  std::vector<Tensor> expected = fused.evaluate(inputs);
  std::vector<Bytes> results = fused.run(bytes);
  ASSERT_EQ(results.size(), expected.size());
  for (auto [i, result] : llvm::enumerate(results)) {
    Tensor computed =
        fromBytes(result, cast<RankedTensorType>(fused.getType().getResult(i)));
    EXPECT_LE(distance(computed, expected[i]), tolerance) << "result " << i;
  }
  EXPECT_EQ(fused.run(bytes, 1, true), results) << "items one by one";
  EXPECT_EQ(fused.run(bytes, 3), results) << "in threes";
  EXPECT_EQ(fused.runInPlace(bytes), results) << "in place";
  KernelRunner unfused(text, /*fuse=*/false);
  EXPECT_EQ(unfused.run(bytes), results) << "not fused";
}

static const int64_t sizes[] = {1, 15, 16, 33};

TEST(Kernels, ElementwiseOpsOfEverySizeAreTheReference) {
  for (int64_t n : sizes)
    check(withSizes(R"mlir(
func.func @main(%x: tensor<3x$Nxf32>, %y: tensor<3x$Nxf32>) -> (tensor<3x$Nxf32>, tensor<3x$Nxi1>) {
  %0 = graph.mul %x, %y : tensor<3x$Nxf32>
  %1 = graph.add %0, %x : tensor<3x$Nxf32>
  %2 = graph.compare lt %1, %y : (tensor<3x$Nxf32>, tensor<3x$Nxf32>) -> tensor<3x$Nxi1>
  %3 = graph.select %2, %1, %y : (tensor<3x$Nxi1>, tensor<3x$Nxf32>, tensor<3x$Nxf32>) -> tensor<3x$Nxf32>
  return %3, %2 : tensor<3x$Nxf32>, tensor<3x$Nxi1>
}
)mlir",
                    {{'N', n}}));
}

/// true is larger than false.
TEST(Kernels, BooleansAreComparedAsNumbers) {
  std::string text =
      "func.func @main(%x: tensor<3x33xi1>, %y: tensor<3x33xi1>) "
      "-> (tensor<3x33xi1>, tensor<3x33xi1>, tensor<3x33xi1>, "
      "tensor<3x33xi1>) {\n";
  for (const char *kind : {"lt", "le", "gt", "ge"})
    text += std::string("  %") + kind + " = graph.compare " + kind +
            " %x, %y : (tensor<3x33xi1>, tensor<3x33xi1>) -> tensor<3x33xi1>\n";
  check(text + "  return %lt, %le, %gt, %ge : tensor<3x33xi1>, "
               "tensor<3x33xi1>, tensor<3x33xi1>, tensor<3x33xi1>\n}\n");
}

/// The rest of a row may be one element, which LLVM would store as it was
/// before it was truncated, over what follows.
TEST(Kernels, ConversionsToShorterIntegersWriteNoMoreThanTheirElements) {
  for (int64_t n : {1, 9, 17, 25, 33, 65})
    for (auto [from, to] : {std::pair("i64", "i32"),
                            {"i64", "i8"},
                            {"i32", "i8"},
                            {"i64", "i1"},
                            {"f32", "i8"}}) {
      std::string size = std::to_string(n), x = "tensor<" + size + "x" + from,
                  y = "tensor<" + size + "x" + to;
      check("func.func @main(%x: " + x + ">) -> " + y +
            "> {\n  %0 = graph.convert %x : (" + x + ">) -> " + y +
            ">\n  return %0 : " + y + ">\n}\n");
    }
}

TEST(Kernels, BroadcastsReadTheirOperandWhereItIs) {
  for (auto [n, m] : {std::pair(1, 5), {15, 1}, {16, 17}, {33, 5}, {100, 2}})
    check(withSizes(R"mlir(
func.func @main(%x: tensor<$Mx$Nxf32>, %b: tensor<$Nxf32>, %c: tensor<$Mxf32>, %s: tensor<f32>) -> tensor<$Mx$Nxf32> {
  %0 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<$Nxf32>) -> tensor<$Mx$Nxf32>
  %1 = graph.broadcast %c {dims = array<i64: 0>} : (tensor<$Mxf32>) -> tensor<$Mx$Nxf32>
  %2 = graph.broadcast %s {dims = array<i64>} : (tensor<f32>) -> tensor<$Mx$Nxf32>
  %3 = graph.add %x, %0 : tensor<$Mx$Nxf32>
  %4 = graph.mul %3, %1 : tensor<$Mx$Nxf32>
  %5 = graph.sub %4, %2 : tensor<$Mx$Nxf32>
  return %5 : tensor<$Mx$Nxf32>
}
)mlir",
                    {{'N', n}, {'M', m}}));
}

TEST(Kernels, ReductionsOverRowsColumnsAndEverything) {
  struct Case {
    const char *kind, *type;
    int64_t n, m;
  };
  for (auto [kind, type, n, m] :
       {Case{"sum", "f32", 1, 40}, Case{"sum", "f32", 16, 3},
        Case{"sum", "f32", 700, 40}, Case{"max", "f32", 33, 3},
        Case{"min", "f32", 7, 1}, Case{"sum", "i64", 33, 7},
        Case{"max", "i32", 150, 5}, Case{"min", "i64", 17, 40}}) {
    std::string text = withSizes(R"mlir(
func.func @main(%x: tensor<$Mx$NxT>) -> (tensor<$MxT>, tensor<$NxT>, tensor<T>) {
  %0 = graph.reduce KIND %x over [1] : (tensor<$Mx$NxT>) -> tensor<$MxT>
  %1 = graph.reduce KIND %x over [0] : (tensor<$Mx$NxT>) -> tensor<$NxT>
  %2 = graph.reduce KIND %x over [0, 1] : (tensor<$Mx$NxT>) -> tensor<T>
  return %0, %1, %2 : tensor<$MxT>, tensor<$NxT>, tensor<T>
}
)mlir",
                                 {{'N', n}, {'M', m}});
    for (auto [from, to] : {std::pair("KIND", kind), std::pair("T", type)})
      for (size_t at; (at = text.find(from)) != std::string::npos;)
        text.replace(at, std::strlen(from), to);
    check(text, 1e-5);
  }
}

TEST(Kernels, ReductionsOfInnerAndOuterDimsOfMany) {
  check(R"mlir(
func.func @main(%x: tensor<3x5x7x33xf32>) -> (tensor<5x33xf32>, tensor<3x7xf32>, tensor<5xf32>) {
  %0 = graph.reduce sum %x over [0, 2] : (tensor<3x5x7x33xf32>) -> tensor<5x33xf32>
  %1 = graph.reduce sum %x over [1, 3] : (tensor<3x5x7x33xf32>) -> tensor<3x7xf32>
  %2 = graph.reduce max %x over [0, 2, 3] : (tensor<3x5x7x33xf32>) -> tensor<5xf32>
  return %0, %1, %2 : tensor<5x33xf32>, tensor<3x7xf32>, tensor<5xf32>
}
)mlir",
        1e-5);
}

TEST(Kernels, LongSumsKeepTheirPrecision) {
  check(R"mlir(
func.func @main(%x: tensor<300x1000xf32>) -> tensor<f32> {
  %0 = graph.mul %x, %x : tensor<300x1000xf32>
  %1 = graph.reduce sum %0 over [0, 1] : (tensor<300x1000xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
)mlir");
}

/// Adding 0.1 sequentially 65,537 times has a relative error of 6e-4.
TEST(Kernels, SumsOfLongColumnsKeepTheirPrecision) {
  check(R"mlir(
func.func @main(%x: tensor<65537x17xf32>) -> (tensor<17xf32>, tensor<17xf32>) {
  %0 = graph.reduce sum %x over [0] : (tensor<65537x17xf32>) -> tensor<17xf32>
  %1 = graph.reduce max %x over [0] : (tensor<65537x17xf32>) -> tensor<17xf32>
  return %0, %1 : tensor<17xf32>, tensor<17xf32>
}
)mlir",
        1e-5, 0.1, 0.1);
}

/// Memory after the rows does not count.
TEST(Kernels, SumsOfLongColumnsEndWhereTheirRowsEnd) {
  check(R"mlir(
func.func @main(%x: tensor<1400x17xf32>) -> tensor<17xf32> {
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 700, 17>, strides = array<i64: 1, 1>} : (tensor<1400x17xf32>) -> tensor<700x17xf32>
  %1 = graph.reduce sum %0 over [0] : (tensor<700x17xf32>) -> tensor<17xf32>
  return %1 : tensor<17xf32>
}
)mlir",
        1e-5);
}

/// The dims are one loop in the sum's own kernel, and two next to the slice.
TEST(Kernels, PartsOfASumDoNotDependOnItsLoops) {
  check(R"mlir(
func.func @main(%x: tensor<70x40x17xf32>) -> (tensor<17xf32>, tensor<64x36x17xf32>) {
  %0 = graph.slice %x {starts = array<i64: 1, 2, 0>, limits = array<i64: 65, 38, 17>, strides = array<i64: 1, 1, 1>} : (tensor<70x40x17xf32>) -> tensor<64x36x17xf32>
  %1 = graph.reduce sum %0 over [0, 1] : (tensor<64x36x17xf32>) -> tensor<17xf32>
  %2 = graph.broadcast %1 {dims = array<i64: 2>} : (tensor<17xf32>) -> tensor<64x36x17xf32>
  %3 = graph.sub %0, %2 : tensor<64x36x17xf32>
  return %1, %3 : tensor<17xf32>, tensor<64x36x17xf32>
}
)mlir",
        1e-5);
}

TEST(Kernels, SoftmaxAndItsGradientOfEverySize) {
  for (auto [n, dim] : {std::pair(1, 1), {5, 0}, {33, 0}, {33, 1}, {600, 1}})
    check(withSizes(R"mlir(
func.func @main(%x: tensor<9x$Nxf32>, %dy: tensor<9x$Nxf32>) -> (tensor<9x$Nxf32>, tensor<9x$Nxf32>) {
  %y = graph.softmax %x {dim = $D : i64} : (tensor<9x$Nxf32>) -> tensor<9x$Nxf32>
  %dx = graph.softmax_grad %dy, %y {dim = $D : i64} : (tensor<9x$Nxf32>, tensor<9x$Nxf32>) -> tensor<9x$Nxf32>
  return %y, %dx : tensor<9x$Nxf32>, tensor<9x$Nxf32>
}
)mlir",
                    {{'N', n}, {'D', dim}}));
}

TEST(Kernels, LayerNormAndItsGradientOfEverySize) {
  for (int64_t n : {3, 33, 768})
    check(withSizes(R"mlir(
func.func @main(%x: tensor<2x5x$Nxf32>, %g: tensor<$Nxf32>, %b: tensor<$Nxf32>, %dy: tensor<2x5x$Nxf32>)
    -> (tensor<2x5x$Nxf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5x$Nxf32>, tensor<$Nxf32>, tensor<$Nxf32>) {
  %y, %mean, %rstd = graph.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f64}
    : (tensor<2x5x$Nxf32>, tensor<$Nxf32>, tensor<$Nxf32>) -> (tensor<2x5x$Nxf32>, tensor<2x5xf32>, tensor<2x5xf32>)
  %dx, %dg, %db = graph.layer_norm_grad %dy, %x, %g, %mean, %rstd
    : (tensor<2x5x$Nxf32>, tensor<2x5x$Nxf32>, tensor<$Nxf32>, tensor<2x5xf32>, tensor<2x5xf32>)
    -> (tensor<2x5x$Nxf32>, tensor<$Nxf32>, tensor<$Nxf32>)
  return %y, %mean, %rstd, %dx, %dg, %db : tensor<2x5x$Nxf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5x$Nxf32>, tensor<$Nxf32>, tensor<$Nxf32>
}
)mlir",
                    {{'N', n}}),
          1e-5);
}

TEST(Kernels, RmsNormAndItsGradientOfEverySize) {
  for (int64_t n : {3, 33, 768})
    check(withSizes(R"mlir(
func.func @main(%x: tensor<2x5x$Nxf32>, %g: tensor<$Nxf32>, %dy: tensor<2x5x$Nxf32>)
    -> (tensor<2x5x$Nxf32>, tensor<2x5xf32>, tensor<2x5x$Nxf32>, tensor<$Nxf32>) {
  %y, %rstd = graph.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<2x5x$Nxf32>, tensor<$Nxf32>) -> (tensor<2x5x$Nxf32>, tensor<2x5xf32>)
  %dx, %dg = graph.rms_norm_grad %dy, %x, %g, %rstd
    : (tensor<2x5x$Nxf32>, tensor<2x5x$Nxf32>, tensor<$Nxf32>, tensor<2x5xf32>) -> (tensor<2x5x$Nxf32>, tensor<$Nxf32>)
  return %y, %rstd, %dx, %dg : tensor<2x5x$Nxf32>, tensor<2x5xf32>, tensor<2x5x$Nxf32>, tensor<$Nxf32>
}
)mlir",
                    {{'N', n}}),
          1e-5);
}

TEST(Kernels, SiluAndItsGradient) {
  check(R"mlir(
func.func @main(%x: tensor<1000xf32>, %dy: tensor<1000xf32>) -> (tensor<1000xf32>, tensor<1000xf32>) {
  %y = graph.silu %x : tensor<1000xf32>
  %dx = graph.silu_grad %dy, %x : tensor<1000xf32>
  return %y, %dx : tensor<1000xf32>, tensor<1000xf32>
}
)mlir");
}

TEST(Kernels, CrossEntropyAndItsGradientIgnoreLabels) {
  for (int64_t n : {3, 1031})
    check(withSizes(R"mlir(
func.func @main(%x: tensor<20x$Nxf32>, %labels: tensor<20xi64>, %d: tensor<20xf32>)
    -> (tensor<20xf32>, tensor<20x$Nxf32>) {
  %loss, %lse = graph.cross_entropy %x, %labels {axis = 1 : i64, ignore_index = 1 : i64}
    : (tensor<20x$Nxf32>, tensor<20xi64>) -> (tensor<20xf32>, tensor<20xf32>)
  %dx = graph.cross_entropy_grad %d, %x, %labels, %lse {axis = 1 : i64, ignore_index = 1 : i64}
    : (tensor<20xf32>, tensor<20x$Nxf32>, tensor<20xi64>, tensor<20xf32>) -> tensor<20x$Nxf32>
  return %loss, %dx : tensor<20xf32>, tensor<20x$Nxf32>
}
)mlir",
                    {{'N', n}}),
          1e-5, 0, 3);
}

TEST(Kernels, GeluAndItsGradientInBothForms) {
  check(R"mlir(
func.func @main(%x: tensor<1000xf32>, %dy: tensor<1000xf32>) -> (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>) {
  %0 = graph.gelu erf %x : tensor<1000xf32>
  %1 = graph.gelu_grad erf %dy, %x : tensor<1000xf32>
  %2 = graph.gelu tanh %x : tensor<1000xf32>
  %3 = graph.gelu_grad tanh %dy, %x : tensor<1000xf32>
  return %0, %1, %2, %3 : tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>
}
)mlir");
}

TEST(Kernels, GatherGivesZeroOutsideAndTakesRowsOrElements) {
  for (int64_t n : sizes)
    check(withSizes(R"mlir(
func.func @main(%w: tensor<6x$Nxf32>, %i: tensor<4x3xi64>, %j: tensor<6x5xi32>) -> (tensor<4x3x$Nxf32>, tensor<6x5xf32>, tensor<6x4x3xf32>) {
  %0 = graph.gather %w, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<6x$Nxf32>, tensor<4x3xi64>) -> tensor<4x3x$Nxf32>
  %1 = graph.gather %w, %j {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<6x$Nxf32>, tensor<6x5xi32>) -> tensor<6x5xf32>
  %2 = graph.gather %w, %i {axis = 1 : i64, batch_dims = 0 : i64} : (tensor<6x$Nxf32>, tensor<4x3xi64>) -> tensor<6x4x3xf32>
  return %0, %1, %2 : tensor<4x3x$Nxf32>, tensor<6x5xf32>, tensor<6x4x3xf32>
}
)mlir",
                    {{'N', n}}),
          1e-6, -2, 8);
}

TEST(Kernels, ScatterAddKeepsTheOrderAndDropsWhatIsOutside) {
  for (int64_t n : sizes)
    check(withSizes(R"mlir(
func.func @main(%i: tensor<4x9xi64>, %u: tensor<4x9x$Nxf32>, %j: tensor<6x5xi32>, %v: tensor<6x5xf32>) -> (tensor<70x$Nxf32>, tensor<6x$Nxf32>) {
  %0 = graph.scatter_add %i, %u {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<4x9xi64>, tensor<4x9x$Nxf32>) -> tensor<70x$Nxf32>
  %1 = graph.scatter_add %j, %v {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<6x5xi32>, tensor<6x5xf32>) -> tensor<6x$Nxf32>
  return %0, %1 : tensor<70x$Nxf32>, tensor<6x$Nxf32>
}
)mlir",
                    {{'N', n}}),
          1e-5, -3, 75);
}

/// With transposed storage the updates are one loop in another order.
TEST(Kernels, ScatterAddKeepsTheOrderOfTransposedUpdates) {
  check(R"mlir(
func.func @main(%i: tensor<5x40xi64>, %u: tensor<5x40xf32>) -> tensor<3xf32> {
  %0 = graph.transpose %i {permutation = array<i64: 1, 0>} : (tensor<5x40xi64>) -> tensor<40x5xi64>
  %1 = graph.transpose %u {permutation = array<i64: 1, 0>} : (tensor<5x40xf32>) -> tensor<40x5xf32>
  %2 = graph.scatter_add %0, %1 {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<40x5xi64>, tensor<40x5xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
)mlir",
        1e-5, -3, 3);
}

TEST(Kernels, ScatterAddOfAsManyRowsAsItGivesNeedsThemUntilItsEnd) {
  std::string text = R"mlir(
func.func @main(%i: tensor<5xi64>, %u: tensor<5x33xf32>) -> tensor<5x33xf32> {
  %0 = graph.scatter_add %i, %u {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<5xi64>, tensor<5x33xf32>) -> tensor<5x33xf32>
  return %0 : tensor<5x33xf32>
}
)mlir";
  check(text, 1e-5, 0, 5);
  KernelRunner runner(text);
  ASSERT_EQ(runner.getNumKernels(), 1);
  EXPECT_TRUE(runner.getKernel(0).getInPlace(0).empty());
}

// The rows are summed before they are added, in a kernel of their own.
TEST(Kernels, ScatterAddBeginsWithWhatItIsAddedTo) {
  for (int64_t n : sizes)
    check(withSizes(R"mlir(
func.func @main(%i: tensor<4x9xi64>, %u: tensor<4x9x$Nxf32>, %x: tensor<70x$Nxf32>, %j: tensor<12xi64>, %y: tensor<12x$Nxf32>, %k: tensor<1xi64>, %v: tensor<1x$Nxf32>, %z: tensor<5x$Nxf32>) -> (tensor<70x$Nxf32>, tensor<12x$Nxf32>, tensor<5x$Nxf32>) {
  %0 = graph.scatter_add %i, %u {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<4x9xi64>, tensor<4x9x$Nxf32>) -> tensor<70x$Nxf32>
  %1 = graph.add %x, %0 : tensor<70x$Nxf32>
  // Updates that are what it begins with: not in place.
  %2 = graph.scatter_add %j, %y {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<12xi64>, tensor<12x$Nxf32>) -> tensor<12x$Nxf32>
  %3 = graph.add %2, %y : tensor<12x$Nxf32>
  // One update: no loop over them.
  %4 = graph.scatter_add %k, %v {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<1xi64>, tensor<1x$Nxf32>) -> tensor<5x$Nxf32>
  %5 = graph.add %4, %z : tensor<5x$Nxf32>
  return %1, %3, %5 : tensor<70x$Nxf32>, tensor<12x$Nxf32>, tensor<5x$Nxf32>
}
)mlir",
                    {{'N', n}}),
          /*tolerance=*/1e-5);
}

TEST(Kernels, ScatterOfWhatIsSummed) {
  check(R"mlir(
func.func @main(%i: tensor<12xi64>, %x: tensor<12x33xf32>) -> tensor<7x33xf32> {
  %s = graph.reduce sum %x over [1] : (tensor<12x33xf32>) -> tensor<12xf32>
  %b = graph.broadcast %s {dims = array<i64: 0>} : (tensor<12xf32>) -> tensor<12x33xf32>
  %u = graph.mul %x, %b : tensor<12x33xf32>
  %0 = graph.scatter_add %i, %u {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<12xi64>, tensor<12x33xf32>) -> tensor<7x33xf32>
  return %0 : tensor<7x33xf32>
}
)mlir",
        1e-5, -1, 8);
}

TEST(Kernels, TransposesOfEveryOrder) {
  for (const char *permutation :
       {"0, 2, 1", "1, 0, 2", "1, 2, 0", "2, 0, 1", "2, 1, 0"}) {
    int64_t shape[] = {5, 33, 18};
    auto at = [&](int i) { return shape[permutation[3 * i] - '0']; };
    std::string text = withSizes(R"mlir(
func.func @main(%x: tensor<5x33x18xf32>) -> tensor<$Ax$Bx$Cxf32> {
  %0 = graph.transpose %x {permutation = array<i64: PERMUTATION>} : (tensor<5x33x18xf32>) -> tensor<$Ax$Bx$Cxf32>
  return %0 : tensor<$Ax$Bx$Cxf32>
}
)mlir",
                                 {{'A', at(0)}, {'B', at(1)}, {'C', at(2)}});
    text.replace(text.find("PERMUTATION"), 11, permutation);
    check(text);
  }
}

TEST(Kernels, SlicesPadsAndConcatenations) {
  check(R"mlir(
func.func @main(%x: tensor<6x40xf32>, %y: tensor<6x9xf32>) -> (tensor<2x13xf32>, tensor<9x64xf32>, tensor<6x49xf32>, tensor<12x40xf32>) {
  %0 = graph.slice %x {starts = array<i64: 1, 2>, limits = array<i64: 5, 40>, strides = array<i64: 2, 3>} : (tensor<6x40xf32>) -> tensor<2x13xf32>
  %1 = graph.pad %x {low = array<i64: 1, 20>, high = array<i64: 2, 4>, interior = array<i64: 0, 0>, value = 1.5 : f64} : (tensor<6x40xf32>) -> tensor<9x64xf32>
  %2 = graph.concat %x, %y {dim = 1 : i64} : (tensor<6x40xf32>, tensor<6x9xf32>) -> tensor<6x49xf32>
  %3 = graph.concat %x, %x {dim = 0 : i64} : (tensor<6x40xf32>, tensor<6x40xf32>) -> tensor<12x40xf32>
  return %0, %1, %2, %3 : tensor<2x13xf32>, tensor<9x64xf32>, tensor<6x49xf32>, tensor<12x40xf32>
}
)mlir");
  check(R"mlir(
func.func @main(%x: tensor<4x7xf32>) -> tensor<9x22xf32> {
  %0 = graph.pad %x {low = array<i64: 0, 2>, high = array<i64: 2, 1>, interior = array<i64: 1, 2>, value = 0.0 : f64} : (tensor<4x7xf32>) -> tensor<9x22xf32>
  return %0 : tensor<9x22xf32>
}
)mlir");
}

TEST(Kernels, WindowsAreIndexArithmetic) {
  check(R"mlir(
func.func @main(%x: tensor<3x9x33xf32>) -> (tensor<3x4x17x3x3xf32>, tensor<3x4x17xf32>) {
  %0 = graph.pad %x {low = array<i64: 0, 1, 1>, high = array<i64: 0, 0, 1>, interior = array<i64: 0, 0, 0>, value = -1.0e+30 : f64} : (tensor<3x9x33xf32>) -> tensor<3x10x35xf32>
  %1 = graph.unfold %0 {dim = 1 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64} : (tensor<3x10x35xf32>) -> tensor<3x4x35x3xf32>
  %2 = graph.unfold %1 {dim = 2 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64} : (tensor<3x4x35x3xf32>) -> tensor<3x4x17x3x3xf32>
  %3 = graph.reduce max %2 over [3, 4] : (tensor<3x4x17x3x3xf32>) -> tensor<3x4x17xf32>
  return %2, %3 : tensor<3x4x17x3x3xf32>, tensor<3x4x17xf32>
}
)mlir");
}

TEST(Kernels, PaddedWindowsAndTheirSumsAreIndexArithmetic) {
  check(R"mlir(
func.func @main(%x: tensor<3x9x33xf32>) -> (tensor<3x5x33x3xf32>, tensor<3x9x33xf32>) {
  %0 = graph.unfold %x {dim = 1 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64, high = 1 : i64, value = -1.0e+30 : f64} : (tensor<3x9x33xf32>) -> tensor<3x5x33x3xf32>
  %1 = graph.unfold %x {dim = 2 : i64, size = 5 : i64, stride = 1 : i64, dilation = 2 : i64, low = 4 : i64, high = 4 : i64} : (tensor<3x9x33xf32>) -> tensor<3x9x33x5xf32>
  %2 = graph.fold %1 {dim = 2 : i64, stride = 1 : i64, dilation = 2 : i64, low = 4 : i64} : (tensor<3x9x33x5xf32>) -> tensor<3x9x33xf32>
  return %0, %2 : tensor<3x5x33x3xf32>, tensor<3x9x33xf32>
}
)mlir");
  check(R"mlir(
func.func @main(%x: tensor<2x5x7x3x4xf32>) -> tensor<2x9x20xf32> {
  %0 = graph.fold %x {dim = 2 : i64, stride = 3 : i64, dilation = 1 : i64, low = 2 : i64} : (tensor<2x5x7x3x4xf32>) -> tensor<2x5x20x3xf32>
  %1 = graph.fold %0 {dim = 1 : i64, stride = 2 : i64, dilation = 1 : i64, low = 1 : i64} : (tensor<2x5x20x3xf32>) -> tensor<2x9x20xf32>
  return %1 : tensor<2x9x20xf32>
}
)mlir");
}

TEST(Kernels, ReshapesBetweenOpsAreIndexArithmetic) {
  check(R"mlir(
func.func @main(%x: tensor<4x6x8xf32>, %b: tensor<48xf32>) -> tensor<8x24xf32> {
  %0 = graph.exp %x : tensor<4x6x8xf32>
  %1 = graph.reshape %0 : (tensor<4x6x8xf32>) -> tensor<4x48xf32>
  %2 = graph.broadcast %b {dims = array<i64: 1>} : (tensor<48xf32>) -> tensor<4x48xf32>
  %3 = graph.mul %1, %2 : tensor<4x48xf32>
  %4 = graph.reshape %3 : (tensor<4x48xf32>) -> tensor<8x24xf32>
  %5 = graph.neg %4 : tensor<8x24xf32>
  return %5 : tensor<8x24xf32>
}
)mlir",
        1e-6, -2, 2);
}

TEST(Kernels, IotaAndConversions) {
  check(R"mlir(
func.func @main(%x: tensor<3x33xf32>, %i: tensor<3x33xi32>, %b: tensor<3x33xi1>) -> (tensor<3x33xi64>, tensor<3x33xf32>, tensor<3x33xi1>, tensor<3x33xf64>) {
  %0 = graph.convert %x : (tensor<3x33xf32>) -> tensor<3x33xi64>
  %1 = graph.iota dim = 1 : tensor<3x33xi64>
  %2 = graph.add %0, %1 : tensor<3x33xi64>
  %3 = graph.convert %i : (tensor<3x33xi32>) -> tensor<3x33xf32>
  %4 = graph.convert %b : (tensor<3x33xi1>) -> tensor<3x33xf32>
  %5 = graph.add %3, %4 : tensor<3x33xf32>
  %6 = graph.convert %i : (tensor<3x33xi32>) -> tensor<3x33xi1>
  %7 = graph.convert %5 : (tensor<3x33xf32>) -> tensor<3x33xf64>
  return %2, %5, %6, %7 : tensor<3x33xi64>, tensor<3x33xf32>, tensor<3x33xi1>, tensor<3x33xf64>
}
)mlir");
}

TEST(Kernels, FloatsThatNoIntegerHoldsSaturate) {
  check(R"mlir(
func.func @main(%x: tensor<3x33xf32>) -> (tensor<3x33xi64>, tensor<3x33xi32>, tensor<3x33xi64>, tensor<3x33xi64>) {
  %zero = graph.constant dense<0.0> : tensor<3x33xf32>
  %large = graph.constant dense<1.0e+30> : tensor<3x33xf32>
  %0 = graph.mul %x, %large : tensor<3x33xf32>
  %1 = graph.convert %0 : (tensor<3x33xf32>) -> tensor<3x33xi64>
  %2 = graph.convert %0 : (tensor<3x33xf32>) -> tensor<3x33xi32>
  %3 = graph.div %x, %zero : tensor<3x33xf32>
  %4 = graph.convert %3 : (tensor<3x33xf32>) -> tensor<3x33xi64>
  %5 = graph.sub %3, %3 : tensor<3x33xf32>
  %6 = graph.convert %5 : (tensor<3x33xf32>) -> tensor<3x33xi64>
  return %1, %2, %4, %6 : tensor<3x33xi64>, tensor<3x33xi32>, tensor<3x33xi64>, tensor<3x33xi64>
}
)mlir");
}

TEST(Kernels, DropoutIsThatOfTheReferenceToTheBit) {
  check(R"mlir(
func.func @main(%x: tensor<7x100xf32>, %seed: tensor<i64>, %step: tensor<i64>, %mb: tensor<i64>, %o0: tensor<i64>, %o1: tensor<i64>) -> tensor<7x100xf32> {
  %0 = graph.dropout %x, %seed, %step, %mb, %o0, %o1 {rate = 0.3 : f64, rng_id = 5 : i64, global_shape = array<i64: 100, 300>}
    : (tensor<7x100xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<7x100xf32>
  return %0 : tensor<7x100xf32>
}
)mlir",
        1e-6, 0, 50);
}

TEST(Kernels, UniformNumbersAreThoseOfTheReferenceToTheBit) {
  check(R"mlir(
func.func @main(%seed: tensor<i64>, %step: tensor<i64>, %mb: tensor<i64>, %o0: tensor<i64>, %o1: tensor<i64>) -> tensor<7x100xf32> {
  %0 = graph.uniform %seed, %step, %mb, %o0, %o1 {rng_id = 5 : i64, global_shape = array<i64: 100, 300>}
    : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<7x100xf32>
  return %0 : tensor<7x100xf32>
}
)mlir",
        0, 0, 50);
}

TEST(Kernels, TheAdamUpdateIsOneKernelThatMayRunInPlace) {
  std::string text = R"mlir(
func.func @main(%p: tensor<50x33xf32>, %m: tensor<50x33xf32>, %v: tensor<50x33xf32>, %g: tensor<50x33xf32>, %lr: tensor<f32>)
    -> (tensor<50x33xf32>, tensor<50x33xf32>, tensor<50x33xf32>) {
  %b1 = graph.constant dense<0.9> : tensor<50x33xf32>
  %c1 = graph.constant dense<0.1> : tensor<50x33xf32>
  %0 = graph.mul %m, %b1 : tensor<50x33xf32>
  %1 = graph.mul %g, %c1 : tensor<50x33xf32>
  %m1 = graph.add %0, %1 : tensor<50x33xf32>
  %g2 = graph.mul %g, %g : tensor<50x33xf32>
  %2 = graph.mul %v, %b1 : tensor<50x33xf32>
  %3 = graph.mul %g2, %c1 : tensor<50x33xf32>
  %v1 = graph.add %2, %3 : tensor<50x33xf32>
  %4 = graph.abs %v1 : tensor<50x33xf32>
  %5 = graph.sqrt %4 : tensor<50x33xf32>
  %6 = graph.add %5, %c1 : tensor<50x33xf32>
  %7 = graph.div %m1, %6 : tensor<50x33xf32>
  %8 = graph.broadcast %lr {dims = array<i64>} : (tensor<f32>) -> tensor<50x33xf32>
  %9 = graph.mul %7, %8 : tensor<50x33xf32>
  %p1 = graph.sub %p, %9 : tensor<50x33xf32>
  return %p1, %m1, %v1 : tensor<50x33xf32>, tensor<50x33xf32>, tensor<50x33xf32>
}
)mlir";
  check(text, 1e-5);
  KernelRunner runner(text);
  ASSERT_EQ(runner.getNumKernels(), 1);
  for (unsigned result = 0; result < 3; ++result)
    EXPECT_GE(runner.getKernel(0).getInPlace(result).size(), 4u);
}

TEST(Kernels, AllReadsComeBeforeTheFirstResultIsWritten) {
  // Result 0 can only take the buffer of %x, which only result 1 reads: element
  // by element, and in the last pass over a row.
  for (const char *body : {R"mlir(
func.func @main(%x: tensor<50x$Nxf32>, %y: tensor<50x$Nxi32>) -> (tensor<50x$Nxf32>, tensor<50x$Nxf32>) {
  %0 = graph.convert %y : (tensor<50x$Nxi32>) -> tensor<50x$Nxf32>
  %1 = graph.mul %x, %0 : tensor<50x$Nxf32>
  return %0, %1 : tensor<50x$Nxf32>, tensor<50x$Nxf32>
}
)mlir",
                           R"mlir(
func.func @main(%x: tensor<50x$Nxf32>, %y: tensor<50x$Nxi32>) -> (tensor<50x$Nxf32>, tensor<50x$Nxf32>) {
  %c = graph.convert %y : (tensor<50x$Nxi32>) -> tensor<50x$Nxf32>
  %max = graph.reduce max %c over [1] : (tensor<50x$Nxf32>) -> tensor<50xf32>
  %all = graph.broadcast %max {dims = array<i64: 0>} : (tensor<50xf32>) -> tensor<50x$Nxf32>
  %0 = graph.sub %c, %all : tensor<50x$Nxf32>
  %1 = graph.mul %x, %0 : tensor<50x$Nxf32>
  return %0, %1 : tensor<50x$Nxf32>, tensor<50x$Nxf32>
}
)mlir"})
    for (int64_t n : {3, 33}) {
      std::string text = withSizes(body, {{'N', n}});
      check(text);
      KernelRunner runner(text);
      ASSERT_EQ(runner.getNumKernels(), 1);
      rank::KernelOp kernel = runner.getKernel(0);
      ASSERT_EQ(kernel.getInPlace(0).size(), 1u);
      EXPECT_TRUE(kernel.getArgumentTypes()[kernel.getInPlace(0).front()] ==
                  kernel.getResultTypes()[0]);
    }
}

TEST(Kernels, EqualStructureIsCompiledOnce) {
  KernelRunner runner(R"mlir(
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) {
  %0 = graph.exp %x {graph.scope = "a"} : tensor<8xf32>
  %1 = graph.exp %y {graph.scope = "b"} : tensor<8xf32>
  %2 = graph.exp %z : tensor<4xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>
}
)mlir");
  EXPECT_EQ(runner.getNumLaunches(), 3);
  EXPECT_EQ(runner.getNumKernels(), 2);
}

TEST(Kernels, EveryCpuGivesTheSameBits) {
  std::string text = R"mlir(
func.func @main(%x: tensor<9x130xf32>) -> tensor<9x130xf32> {
  %y = graph.softmax %x {dim = 1 : i64} : (tensor<9x130xf32>) -> tensor<9x130xf32>
  return %y : tensor<9x130xf32>
}
)mlir";
  KernelRunner avx2(text, /*fuse=*/true, "x86-64-v3"), native(text);
  Bytes input = toBytes(randomTensor(
      cast<RankedTensorType>(native.getType().getInput(0)), -4, 4, 1));
  EXPECT_EQ(avx2.run({input}), native.run({input}));
  for (const std::string &feature : avx2.getCompiled().images.front().features)
    EXPECT_FALSE(feature.starts_with("avx512")) << feature;
}

TEST(Kernels, TheRuntimeAcceptsTheImage) {
  KernelRunner runner(R"mlir(
func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
  %0 = graph.exp %x : tensor<100xf32>
  %1 = graph.sin %0 : tensor<100xf32>
  %2 = graph.pow %1, %x : tensor<100xf32>
  return %2 : tensor<100xf32>
}
)mlir");
  const std::string &image = runner.getCompiled().images.front().bytes;
  auto checked = runtime::checkKernelImage(
      {reinterpret_cast<const uint8_t *>(image.data()), image.size()});
  EXPECT_TRUE(bool(checked)) << checked.error().message;
}
