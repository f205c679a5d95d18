// The tolerance of rounded evaluations.

#include "compiler/evaluate/Evaluator.h"
#include "dialects/graph/Graph.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

namespace {

double toleranceOf(const std::string &body, Rounding rounding) {
  DialectRegistry registry;
  registry.insert<graph::GraphDialect, sharding::ShardingDialect,
                  func::FuncDialect>();
  MLIRContext context(registry);
  auto module = parseSourceString<ModuleOp>(
      "func.func @main(%x: tensor<100x100xf32>, %y: tensor<2x100xbf16>) {\n" +
          body + "  return\n}\n",
      &context);
  EXPECT_TRUE(module);
  return module ? getRoundingTolerance(*module, rounding) : 0;
}

} // namespace

TEST(Tolerance, IsThatOfTheNarrowestTypeAndTheLongestSum) {
  const std::string negated = "  %n = graph.neg %x : tensor<100x100xf32>\n",
                    summed = "  %s = graph.reduce sum %x over [0, 1] : "
                             "(tensor<100x100xf32>) -> tensor<f32>\n",
                    product =
                        "  %p = graph.matmul %x, %x batch [] x [] contract "
                        "[1] x [0] : (tensor<100x100xf32>, "
                        "tensor<100x100xf32>) -> tensor<100x100xf32>\n",
                    narrow = "  %m = graph.neg %y : tensor<2x100xbf16>\n",
                    narrowSum = "  %t = graph.reduce sum %y over [1] : "
                                "(tensor<2x100xbf16>) -> tensor<2xbf16>\n";
  auto rounded = [](const std::string &body) {
    return toleranceOf(body, Rounding::OfTypes);
  };
  constexpr double unit = 16 * 0x1p-24;
  EXPECT_EQ(rounded(negated), unit * 1);
  EXPECT_EQ(rounded(negated + summed), unit * 201);
  EXPECT_EQ(rounded(negated + product), unit * 21);
  EXPECT_EQ(rounded(negated + narrow), 16 * 0x1p-8);
  EXPECT_EQ(rounded(summed + narrowSum), 16 * 0x1p-8 + unit * 20);
  EXPECT_EQ(toleranceOf(summed + narrowSum, Rounding::Exact),
            roundingTolerance);
}
