// The passes keep the value of the exported patterns.

#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
#include "test/compiler/training/TestModule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

/// Exports hold sqrt(2) and its like as f32; the ops that replace them compute
/// with all digits. Each such constant is off by 2^-24 at most.
constexpr double constantTolerance = 5e-7;

class ValueTest : public TrainingTest {
protected:
  /// A module with parameters `name: shape` and @forward(arguments) of `body`.
  /// Runs the passes in the pipeline's order, each time comparing the value,
  /// and returns the module.
  OwningOpRef<ModuleOp> checkPasses(StringRef text) {
    auto module = parse(text);
    if (!module)
      return module;
    func::FuncOp forward = function(*module);
    SmallVector<Tensor> arguments = evaluate::randomArguments(forward, 9);
    SmallVector<Tensor> expected = evaluate(forward, arguments);
    // The stored tensors and the inputs, by name.
    llvm::StringMap<Tensor> stored;
    for (BlockArgument argument : forward.getArguments())
      stored[nameOf(forward, argument)] = arguments[argument.getArgNumber()];
    for (auto create : {createUnflattenPass, createRaiseCompositesPass,
                        createFindLogicalParametersPass}) {
      EXPECT_EQ(run(*module, create()), "");
      SmallVector<Tensor> views;
      for (BlockArgument argument : forward.getArguments())
        views.push_back(
            view(forward, argument, stored[nameOf(forward, argument)]));
      expectEqual(evaluate(forward, views), expected, constantTolerance);
    }
    return module;
  }

  template <typename Op>
  static int64_t count(ModuleOp module) {
    int64_t number = 0;
    module.walk([&](Op) { ++number; });
    return number;
  }

private:
  static std::string nameOf(func::FuncOp function, BlockArgument argument) {
    return graph::Boundary(function).getName(argument.getArgNumber());
  }

  static Tensor view(func::FuncOp function, BlockArgument argument,
                     const Tensor &stored) {
    DenseI64ArrayAttr numbers =
        graph::Boundary(function).getView(argument.getArgNumber());
    if (!numbers)
      return stored;
    Tensor result(cast<RankedTensorType>(argument.getType()));
    int64_t to = 0;
    graph::forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      int64_t from = numbers[0];
      for (auto [i, position] : llvm::enumerate(index))
        from += position * numbers[i + 1];
      result.copy(to++, stored, from);
    });
    return result;
  }
};

} // namespace

TEST_F(ValueTest, OfATransformerBlock) {
  auto module = parseSourceFile<ModuleOp>(POLYRANK_TRAINING_TESTS "/block.mlir",
                                          &context);
  ASSERT_TRUE(module);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  auto changed = checkPasses(text);
  EXPECT_EQ(count<graph::AttentionOp>(*changed), 1);
  EXPECT_EQ(count<graph::GeluOp>(*changed), 1);
  EXPECT_EQ(count<graph::SoftmaxOp>(*changed), 0);
}

TEST_F(ValueTest, OfGeluInOtherOrders) {
  auto module = checkPasses(R"(
    func.func @forward(%x: tensor<5xf32> {graph.role = #graph.input<"x">}) -> tensor<5xf32> {
      %root = graph.constant dense<1.41421356> : tensor<5xf32>
      %one = graph.constant dense<1.0> : tensor<5xf32>
      %half = graph.constant dense<0.5> : tensor<5xf32>
      %a = graph.div %x, %root : tensor<5xf32>
      %b = graph.erf %a : tensor<5xf32>
      %c = graph.add %one, %b : tensor<5xf32>
      %d = graph.mul %half, %c : tensor<5xf32>
      %y = graph.mul %d, %x : tensor<5xf32>
      return %y : tensor<5xf32>
    })");
  EXPECT_EQ(count<graph::GeluOp>(*module), 1);
  EXPECT_EQ(count<graph::ErfOp>(*module), 0);
}

TEST_F(ValueTest, OfWhatOnlyLooksLikeGelu) {
  auto module = checkPasses(R"(
    func.func @forward(%x: tensor<5xf32> {graph.role = #graph.input<"x">}) -> tensor<5xf32> {
      %root = graph.constant dense<1.5> : tensor<5xf32>
      %one = graph.constant dense<1.0> : tensor<5xf32>
      %a = graph.div %x, %root : tensor<5xf32>
      %b = graph.erf %a : tensor<5xf32>
      %c = graph.add %one, %b : tensor<5xf32>
      %y = graph.mul %c, %x : tensor<5xf32>
      return %y : tensor<5xf32>
    })");
  EXPECT_EQ(count<graph::GeluOp>(*module), 0);
}

TEST_F(ValueTest, OfLayerNormInParts) {
  auto module = checkPasses(R"(
    func.func @forward(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}, %g: tensor<4xf32> {graph.role = #graph.input<"g">},
                       %b: tensor<4xf32> {graph.role = #graph.input<"b">}) -> tensor<2x3x4xf32> {
      %four = graph.constant dense<4.0> : tensor<2x3x1xf32>
      %s = graph.reduce sum %x over [2] : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
      %s1 = graph.reshape %s : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
      %m = graph.div %s1, %four : tensor<2x3x1xf32>
      %m0 = graph.reshape %m : (tensor<2x3x1xf32>) -> tensor<2x3xf32>
      %mm = graph.broadcast %m0 {dims = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3x4xf32>
      %c = graph.sub %x, %mm : tensor<2x3x4xf32>
      %two = graph.constant dense<2.0> : tensor<2x3x4xf32>
      %q = graph.pow %c, %two : tensor<2x3x4xf32>
      %t = graph.reduce sum %q over [2] : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
      %t1 = graph.reshape %t : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
      %v = graph.div %t1, %four : tensor<2x3x1xf32>
      %e = graph.constant dense<1.0e-5> : tensor<2x3x1xf32>
      %w = graph.add %v, %e : tensor<2x3x1xf32>
      %r = graph.sqrt %w : tensor<2x3x1xf32>
      %r0 = graph.reshape %r : (tensor<2x3x1xf32>) -> tensor<2x3xf32>
      %rr = graph.broadcast %r0 {dims = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3x4xf32>
      %n = graph.div %c, %rr : tensor<2x3x4xf32>
      %gg = graph.broadcast %g {dims = array<i64: 2>} : (tensor<4xf32>) -> tensor<2x3x4xf32>
      %p = graph.mul %n, %gg : tensor<2x3x4xf32>
      %bb = graph.broadcast %b {dims = array<i64: 2>} : (tensor<4xf32>) -> tensor<2x3x4xf32>
      %y = graph.add %p, %bb : tensor<2x3x4xf32>
      return %y : tensor<2x3x4xf32>
    })");
  EXPECT_EQ(count<graph::LayerNormOp>(*module), 1);
  EXPECT_EQ(count<graph::ReduceOp>(*module), 0);
}

// The form in Llama, and the form x / sqrt(..) without a scale.
TEST_F(ValueTest, OfRmsNormInParts) {
  std::string mean = R"(
      %s = graph.reduce sum %q over [2] : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
      %four = graph.constant dense<4.0> : tensor<2x3xf32>
      %m = graph.div %s, %four : tensor<2x3xf32>
      %e = graph.constant dense<1.0e-5> : tensor<2x3xf32>
      %v = graph.add %e, %m : tensor<2x3xf32>
  )";
  auto module = checkPasses(R"(
    func.func @forward(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}, %g: tensor<4xf32> {graph.role = #graph.input<"g">}) -> tensor<2x3x4xf32> {
      %q = graph.mul %x, %x : tensor<2x3x4xf32>
)" + mean + R"(
      %r = graph.rsqrt %v : tensor<2x3xf32>
      %rr = graph.broadcast %r {dims = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3x4xf32>
      %n = graph.mul %rr, %x : tensor<2x3x4xf32>
      %gg = graph.broadcast %g {dims = array<i64: 2>} : (tensor<4xf32>) -> tensor<2x3x4xf32>
      %y = graph.mul %gg, %n : tensor<2x3x4xf32>
      return %y : tensor<2x3x4xf32>
    })");
  EXPECT_EQ(count<graph::RmsNormOp>(*module), 1);
  EXPECT_EQ(count<graph::MulOp>(*module), 0);
  module = checkPasses(R"(
    func.func @forward(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}) -> tensor<2x3x4xf32> {
      %two = graph.constant dense<2.0> : tensor<2x3x4xf32>
      %q = graph.pow %x, %two : tensor<2x3x4xf32>
)" + mean + R"(
      %r = graph.sqrt %v : tensor<2x3xf32>
      %rr = graph.broadcast %r {dims = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3x4xf32>
      %n = graph.div %x, %rr : tensor<2x3x4xf32>
      return %n : tensor<2x3x4xf32>
    })");
  EXPECT_EQ(count<graph::RmsNormOp>(*module), 1);
  EXPECT_EQ(count<graph::DivOp>(*module), 0);
}

// The square is of another value, so it is not a norm.
TEST_F(ValueTest, OfWhatOnlyLooksLikeRmsNorm) {
  auto module = checkPasses(R"(
    func.func @forward(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}, %z: tensor<2x4xf32> {graph.role = #graph.input<"z">}) -> tensor<2x4xf32> {
      %q = graph.mul %z, %z : tensor<2x4xf32>
      %s = graph.reduce sum %q over [1] : (tensor<2x4xf32>) -> tensor<2xf32>
      %four = graph.constant dense<4.0> : tensor<2xf32>
      %m = graph.div %s, %four : tensor<2xf32>
      %e = graph.constant dense<1.0e-5> : tensor<2xf32>
      %v = graph.add %m, %e : tensor<2xf32>
      %r = graph.rsqrt %v : tensor<2xf32>
      %rr = graph.broadcast %r {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf32>
      %n = graph.mul %x, %rr : tensor<2x4xf32>
      return %n : tensor<2x4xf32>
    })");
  EXPECT_EQ(count<graph::RmsNormOp>(*module), 0);
}

TEST_F(ValueTest, OfSiluWhoseSigmoidHasAnotherUse) {
  auto module = checkPasses(R"(
    func.func @forward(%x: tensor<5xf32> {graph.role = #graph.input<"x">}) -> (tensor<5xf32>, tensor<5xf32>) {
      %s = graph.sigmoid %x : tensor<5xf32>
      %y = graph.mul %x, %s : tensor<5xf32>
      return %y, %s : tensor<5xf32>, tensor<5xf32>
    })");
  EXPECT_EQ(count<graph::SiluOp>(*module), 1);
  EXPECT_EQ(count<graph::SigmoidOp>(*module), 1);
}

// Phi-3's fused projection: parts of different sizes become parameters.
TEST_F(ValueTest, OfAFusedProjectionWithUnequalParts) {
  auto module = checkPasses(R"(
    graph.parameter @qkv : tensor<4x16xf32> at "m.onnx" offset 0 length 256 {trainable}
    func.func @forward(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}, %w: tensor<4x16xf32> {graph.role = #graph.parameter<@qkv>})
        -> (tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) {
      %v = graph.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
      %m = graph.matmul %v, %w batch [] x [] contract [1] x [0] : (tensor<6x4xf32>, tensor<4x16xf32>) -> tensor<6x16xf32>
      %z = graph.reshape %m : (tensor<6x16xf32>) -> tensor<2x3x16xf32>
      %s0 = graph.slice %z {starts = array<i64: 0, 0, 0>, limits = array<i64: 2, 3, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x16xf32>) -> tensor<2x3x8xf32>
      %s1 = graph.slice %z {starts = array<i64: 0, 0, 8>, limits = array<i64: 2, 3, 12>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x16xf32>) -> tensor<2x3x4xf32>
      %s2 = graph.slice %z {starts = array<i64: 0, 0, 12>, limits = array<i64: 2, 3, 16>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x16xf32>) -> tensor<2x3x4xf32>
      %q = graph.reshape %s0 : (tensor<2x3x8xf32>) -> tensor<2x3x4x2xf32>
      %k = graph.reshape %s1 : (tensor<2x3x4xf32>) -> tensor<2x3x2x2xf32>
      %u = graph.reshape %s2 : (tensor<2x3x4xf32>) -> tensor<2x3x2x2xf32>
      return %q, %k, %u : tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>
    })");
  EXPECT_EQ(function(*module).getNumArguments(), 4u);
  EXPECT_EQ(count<graph::MatmulOp>(*module), 3);
  EXPECT_EQ(count<graph::ReshapeOp>(*module), 0);
  EXPECT_EQ(count<graph::SliceOp>(*module), 0);
}

// The loss's view(-1, V): logits and labels flattened.
TEST_F(ValueTest, OfAFlattenedLoss) {
  auto module = checkPasses(R"(
    func.func @forward(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}, %l: tensor<2x3xi64> {graph.role = #graph.input<"l">}) -> tensor<f32> {
      %v = graph.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
      %w = graph.reshape %l : (tensor<2x3xi64>) -> tensor<6xi64>
      %c, %lse = graph.cross_entropy %v, %w {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<6x4xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
      %s = graph.reduce sum %c over [0] : (tensor<6xf32>) -> tensor<f32>
      return %s : tensor<f32>
    })");
  EXPECT_EQ(count<graph::ReshapeOp>(*module), 0);
}
