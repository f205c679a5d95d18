// The shrinker keeps the failing part and removes the rest.

#include "test/random/Shrink.h"
#include "compiler/target/cpu/CpuTarget.h"

#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"

#include <csignal>
#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;

namespace {

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registerDialects(registry);
  cpu::registerTarget(registry);
  return std::make_unique<MLIRContext>(registry,
                                       MLIRContext::Threading::DISABLED);
}

template <typename Op>
int64_t count(ModuleOp module) {
  int64_t number = 0;
  module.walk([&](Op) { ++number; });
  return number;
}

TEST(Shrink, LeavesOneOpOfMany) {
  auto context = makeContext();
  auto module = parseSourceString<ModuleOp>(R"mlir(
func.func @forward(%x: tensor<4x6xf32> {graph.role = #graph.input<"x">}, %w: tensor<6x3xf32> {graph.role = #graph.parameter<@w>}) -> (tensor<4x3xf32> {graph.role = #graph.output<"y">}, tensor<4xf32> {graph.role = #graph.output<"z">}) {
  %0 = graph.exp %x : tensor<4x6xf32>
  %1 = graph.softmax %0 {dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = graph.matmul %1, %w batch [] x [] contract [1] x [0] : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  %3 = graph.neg %2 : tensor<4x3xf32>
  %4 = graph.reduce sum %0 over [1] : (tensor<4x6xf32>) -> tensor<4xf32>
  return %3, %4 : tensor<4x3xf32>, tensor<4xf32>
}
)mlir",
                                            context.get());
  ASSERT_TRUE(module);
  int64_t asked = 0;
  shrink(module, [&](ModuleOp candidate) {
    ++asked;
    return count<graph::SoftmaxOp>(candidate) > 0;
  });
  EXPECT_GT(asked, 3);
  EXPECT_EQ(count<graph::SoftmaxOp>(*module), 1);
  EXPECT_EQ(count<graph::GraphOp>(*module), 1);
  for (auto function : module->getOps<func::FuncOp>()) {
    EXPECT_EQ(function.getNumResults(), 1u);
    EXPECT_EQ(function.getNumArguments(), 1u);
  }
}

TEST(Shrink, KeepsWhatOnlyTogetherFails) {
  auto context = makeContext();
  auto module = parseSourceString<ModuleOp>(R"mlir(
func.func @forward(%x: tensor<4xf32> {graph.role = #graph.input<"x">}) -> (tensor<4xf32> {graph.role = #graph.output<"y">}) {
  %0 = graph.exp %x : tensor<4xf32>
  %1 = graph.neg %0 : tensor<4xf32>
  %2 = graph.abs %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
)mlir",
                                            context.get());
  ASSERT_TRUE(module);
  shrink(module, [](ModuleOp candidate) {
    return count<graph::ExpOp>(candidate) && count<graph::AbsOp>(candidate);
  });
  EXPECT_EQ(count<graph::GraphOp>(*module), 2);
  EXPECT_EQ(count<graph::NegOp>(*module), 0);
}

TEST(RunInChild, TellsWhatIsWrongAndWhatCrashes) {
  auto run = [](function_ref<void()> act) {
    return runInChild([&]() -> std::optional<Failure> {
      act();
      return Failure{"localize ranks", "element 0 is 1\nand more", 2, {}};
    });
  };
  auto failure = run([] {});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->first, "localize ranks");
  EXPECT_EQ(failure->second, "element 0 is 1\nand more");
  auto crash = run([] {
    atWork = "seed 7, form-kernels";
    std::raise(SIGSEGV);
  });
  ASSERT_TRUE(crash);
  EXPECT_EQ(crash->first, "form-kernels");
  EXPECT_EQ(crash->second, "crashed");
  EXPECT_FALSE(runInChild([]() -> std::optional<Failure> { return {}; }));
}

} // namespace
