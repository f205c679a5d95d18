// Attention as a library call: it answers the interface's questions, and
// computes with strides what graph.attention computes without.

#include "dialects/Register.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;
using graph::Tensor;

namespace {

/// The ops of a function.
struct Program {
  explicit Program(const std::string &text) {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(text, &context);
  }
  template <typename Op>
  Op find() {
    Op found;
    module->walk([&](Op op) { found = op; });
    return found;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

// Queries, keys and values are in one projection [2, 3, 3 * 2 * 4], head after
// head; dy and the gradients are [2, 3, 8]. The bias is [1, 2, 1, 3].
const char *text = R"(
func.func @f(%x: tensor<2x3x24xf32>, %q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>,
             %b: tensor<1x2x1x3xf32>, %g0: tensor<2x3x8xf32>, %g: tensor<2x2x3x4xf32>, %lse: tensor<2x2x3xf32>) {
  %y0, %l0 = rank.attention %x at [0, 72, 4, 24], %x at [8, 72, 4, 24], %x at [16, 72, 4, 24] bias %b
      to [24, 4, 8] sizes [2, 2, 2, 3, 3, 4, 4] {scale = 0.5 : f64, causal = true}
      : (tensor<2x3x24xf32>, tensor<2x3x24xf32>, tensor<2x3x24xf32>, tensor<1x2x1x3xf32>) -> (tensor<2x3x8xf32>, tensor<2x2x3xf32>)
  %y, %l = graph.attention %q, %k, %v bias %b {scale = 0.5 : f64, causal = true}
      : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<1x2x1x3xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3xf32>)
  %dq0, %dk0, %dv0, %db0 = rank.attention_grad %g0 at [0, 24, 4, 8], %x at [0, 72, 4, 24], %x at [8, 72, 4, 24], %x at [16, 72, 4, 24],
      %g0 at [0, 24, 4, 8], %lse bias %b to [24, 4, 8], [24, 12, 4], [24, 4, 8] sizes [2, 2, 2, 3, 3, 4, 4] {scale = 0.5 : f64, causal = true}
      : (tensor<2x3x8xf32>, tensor<2x3x24xf32>, tensor<2x3x24xf32>, tensor<2x3x24xf32>, tensor<2x3x8xf32>, tensor<2x2x3xf32>, tensor<1x2x1x3xf32>)
      -> (tensor<2x3x8xf32>, tensor<2x2x3x4xf32>, tensor<2x3x8xf32>, tensor<1x2x1x3xf32>)
  %dq, %dk, %dv, %db = graph.attention_grad %g, %q, %k, %v, %g, %lse bias %b {scale = 0.5 : f64, causal = true}
      : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3xf32>, tensor<1x2x1x3xf32>)
      -> (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<1x2x1x3xf32>)
  return
}
)";

Tensor numbers(Type type, double seed) {
  Tensor result(cast<RankedTensorType>(type));
  for (size_t i = 0; i < result.floats.size(); ++i)
    result.floats[i] = std::sin(seed + 1.7 * i);
  return result;
}

/// [2, 2, 3, 4] of [2, 3, whole], whose part of two heads begins at `first`.
Tensor heads(const Tensor &from, int64_t first) {
  Tensor result(from.elementType, {2, 2, 3, 4});
  int64_t whole = from.shape[2], next = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t i = 0; i < 4; ++i)
          result.floats[next++] =
              from.floats[(b * 3 + r) * whole + first + h * 4 + i];
  return result;
}

template <typename Op>
SmallVector<Tensor> evaluate(Op op, ArrayRef<Tensor> operands) {
  SmallVector<Tensor> results;
  for (Type type : op->getResultTypes())
    results.emplace_back(cast<RankedTensorType>(type));
  EXPECT_TRUE(succeeded(op.evaluate(operands, results)));
  return results;
}

} // namespace

TEST(Attention, ComputesWithStridesWhatTheGraphsComputes) {
  Program program(text);
  ASSERT_TRUE(program.module);
  auto strided = program.find<rank::AttentionOp>();
  auto whole = program.find<graph::AttentionOp>();
  Tensor x = numbers(strided.getQ().getType(), 0),
         bias = numbers(strided.getBias().getType(), 5);
  auto actual = evaluate(strided, {x, x, x, bias});
  auto expected =
      evaluate(whole, {heads(x, 0), heads(x, 8), heads(x, 16), bias});
  EXPECT_EQ(heads(actual[0], 0).floats, expected[0].floats);
  EXPECT_EQ(actual[1].floats, expected[1].floats);
}

TEST(Attention, HasTheGradientsOfTheGraphs) {
  Program program(text);
  ASSERT_TRUE(program.module);
  auto strided = program.find<rank::AttentionGradOp>();
  auto whole = program.find<graph::AttentionGradOp>();
  Tensor x = numbers(strided.getQ().getType(), 0),
         bias = numbers(strided.getBias().getType(), 5),
         dy = numbers(strided.getResultGradient().getType(), 7),
         y = numbers(strided.getResultValue().getType(), 9),
         lse = numbers(strided.getLse().getType(), 11);
  auto actual = evaluate(strided, {dy, x, x, x, y, lse, bias});
  auto expected = evaluate(whole, {heads(dy, 0), heads(x, 0), heads(x, 8),
                                   heads(x, 16), heads(y, 0), lse, bias});
  EXPECT_EQ(heads(actual[0], 0).floats, expected[0].floats);
  EXPECT_EQ(actual[1].floats, expected[1].floats);
  EXPECT_EQ(heads(actual[2], 0).floats, expected[2].floats);
  EXPECT_EQ(actual[3].floats, expected[3].floats);
}

TEST(Attention, SaysWhatItComputes) {
  Program program(text);
  ASSERT_TRUE(program.module);
  rank::LibraryCallOp forward = cast<rank::LibraryCallOp>(
                          *program.find<rank::AttentionOp>()),
                      grad = cast<rank::LibraryCallOp>(
                          *program.find<rank::AttentionGradOp>());
  EXPECT_EQ(forward.getText(), "attention 2x2x3x3 of 4 causal");
  EXPECT_EQ(grad.getText(), "attention_grad 2x2x3x3 of 4 causal");
  // Six of nine pairs of each of four heads are seen.
  EXPECT_EQ(forward.getFlops(), 2 * 4 * 6 * 8);
  EXPECT_EQ(grad.getFlops(), 2 * 4 * 6 * 20);
  EXPECT_EQ(forward.getReadBegin(0), 0);
  EXPECT_EQ(forward.getReadBegin(1), 32);
  EXPECT_EQ(forward.getReadBegin(2), 64);
  EXPECT_EQ(forward.getReadBegin(3), 0);
  EXPECT_EQ(grad.getReadBegin(2), 32);
  EXPECT_EQ(grad.getReadBegin(5), 0);
}
