// Adding and removing arguments keeps results tied to the same arguments.

#include "dialects/graph/Boundary.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/ParameterSymbols.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace polyrank;

namespace {

class BoundaryTest : public testing::Test {
protected:
  BoundaryTest() {
    context.loadDialect<func::FuncDialect, graph::GraphDialect,
                        sharding::ShardingDialect>();
    module = parseSourceString<ModuleOp>(
        R"(
        func.func @forward(%unused: tensor<2xf32>, %a: tensor<f32> {graph.role = #graph.state<"a">}, %b: tensor<f32> {graph.role = #graph.state<"b">})
            -> (tensor<f32> {graph.role = #graph.next<2>}, tensor<f32> {graph.role = #graph.next<1>}) {
          return %a, %b : tensor<f32>, tensor<f32>
        })",
        &context);
    function = module->lookupSymbol<func::FuncOp>("forward");
  }

  /// Returns the arguments that the two results replace.
  std::vector<unsigned> replaced() {
    graph::Boundary boundary(function);
    return {*boundary.getReplaced(0), *boundary.getReplaced(1)};
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};

TEST_F(BoundaryTest, ResultsStayTiedWhenAnArgumentIsInserted) {
  graph::Boundary boundary(function);
  auto type = RankedTensorType::get({}, Float32Type::get(&context));
  Location location = UnknownLoc::get(&context);
  auto role = [&](StringRef name) {
    return parseAttribute(("#graph.state<\"" + name + "\">").str(), &context);
  };
  boundary.insertArgument(2, type, role("between"), location);
  EXPECT_EQ(replaced(), (std::vector<unsigned>{3, 1}));
  boundary.insertArgument(0, type, role("first"), location);
  EXPECT_EQ(replaced(), (std::vector<unsigned>{4, 2}));
  boundary.insertArgument(5, type, role("last"), location);
  EXPECT_EQ(replaced(), (std::vector<unsigned>{4, 2}));
  EXPECT_EQ(boundary.getName(4), "b");
}

TEST_F(BoundaryTest, ResultsStayTiedWhenAnArgumentIsErased) {
  graph::Boundary(function).eraseArgument(0);
  EXPECT_EQ(replaced(), (std::vector<unsigned>{1, 0}));
  EXPECT_EQ(graph::Boundary(function).getName(1), "b");
}

TEST(ParameterSymbols, KeepNamesOfTheModelApartFromTheCompilersOwn) {
  std::set<std::string> symbols;
  std::vector<std::string> names = {
      "step",           "step_1", "forward",     "kernel",    "kernel.add",
      "parameter:step", "w",      "step.weight", "step_size", "kernels"};
  for (const std::string &name : names) {
    std::string symbol = graph::symbolOf(name);
    EXPECT_EQ(graph::nameOf(symbol), name);
    symbols.insert(symbol);
  }
  EXPECT_EQ(symbols.size(), names.size());
  for (const char *own : {"step", "step_1", "forward", "kernel", "kernel.add"})
    EXPECT_FALSE(symbols.contains(own)) << own;
  // Other names are the user's.
  for (const char *name : {"w", "step.weight", "step_size", "kernels"})
    EXPECT_TRUE(symbols.contains(name)) << name;
}

} // namespace
