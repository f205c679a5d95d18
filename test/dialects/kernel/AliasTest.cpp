// Which results of loops may take the buffer of an argument, by what a thread
// of the target computes.

#include <gtest/gtest.h>

#include "dialects/Register.h"
#include "dialects/kernel/Kernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace polyrank;
using kernel::ThreadWork;

namespace {

class Aliases : public testing::Test {
protected:
  Aliases() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  /// Parses a module with one set of loops.
  kernel::LoopsOp parse(const char *text) {
    module = parseSourceString<ModuleOp>(text, &context);
    kernel::LoopsOp found;
    if (module)
      module->walk([&](kernel::LoopsOp loops) { found = loops; });
    return found;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

/// The sum of each row times that row, and the sum times a scale of the row.
const char *rows = R"mlir(
func.func @f(%x: tensor<8x16xf32>, %s: tensor<8xf32>) -> (tensor<8x16xf32>, tensor<8xf32>) {
  %0:2 = kernel.loops [8, reduce 16] (%x, %s : tensor<8x16xf32>, tensor<8xf32>) -> (tensor<8x16xf32>, tensor<8xf32>) {
    %1 = kernel.load %x[d0 * 16 + d1] : tensor<8x16xf32>
    %2 = kernel.load %s[d0] : tensor<8xf32>
    %3 = kernel.reduce sum %1 : f32
    %4 = arith.mulf %1, %3 : f32
    %5 = arith.mulf %3, %2 : f32
    %6 = arith.addf %4, %2 : f32
    kernel.store %6 to 0[d0 * 16 + d1] : f32
    kernel.store %5 to 1[d0] : f32
  }
  return %0#0, %0#1 : tensor<8x16xf32>, tensor<8xf32>
}
)mlir";

TEST_F(Aliases, OfARowThatOneThreadComputes) {
  kernel::LoopsOp loops = parse(rows);
  ASSERT_TRUE(loops);
  EXPECT_TRUE(mayAlias(loops, 0, 0, ThreadWork::Row));
  EXPECT_TRUE(mayAlias(loops, 1, 1, ThreadWork::Row));
  EXPECT_FALSE(mayAlias(loops, 0, 1, ThreadWork::Row)) << "another size";
  EXPECT_FALSE(mayAlias(loops, 1, 0, ThreadWork::Row)) << "another size";
}

/// A thread that stores the result of a row may be ahead of one that has still
/// to read what the whole row needs.
TEST_F(Aliases, OfARowThatSeveralThreadsShare) {
  kernel::LoopsOp loops = parse(rows);
  ASSERT_TRUE(loops);
  EXPECT_TRUE(mayAlias(loops, 0, 0, ThreadWork::PartOfRow))
      << "each thread reads and writes elements of its own";
  EXPECT_FALSE(mayAlias(loops, 1, 1, ThreadWork::PartOfRow));
}

TEST_F(Aliases, OfPointsWithoutARow) {
  kernel::LoopsOp loops = parse(R"mlir(
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = kernel.loops [8] (%x : tensor<8xf32>) -> tensor<8xf32> {
    %1 = kernel.load %x[d0] : tensor<8xf32>
    %2 = arith.negf %1 : f32
    kernel.store %2 to 0[d0] : f32
  }
  return %0 : tensor<8xf32>
}
)mlir");
  ASSERT_TRUE(loops);
  EXPECT_TRUE(mayAlias(loops, 0, 0, ThreadWork::Row));
  EXPECT_TRUE(mayAlias(loops, 0, 0, ThreadWork::PartOfRow));
}

} // namespace
