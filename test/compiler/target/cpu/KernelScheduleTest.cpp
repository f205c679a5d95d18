// Hand-written kernel schedules: those for which no code can be generated are
// refused.

#include <gtest/gtest.h>

#include "compiler/target/cpu/KernelSchedule.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

namespace {

class Schedules : public testing::Test {
protected:
  Schedules() {
    DialectRegistry registry;
    registerDialects(registry);
    registry.insert<CpuDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      message += diagnostic.str();
      return success();
    });
  }

  /// Returns what is wrong with a kernel schedule of sums over the rows (or, if
  /// not `reduced`, of copies) of a 4x64 tensor; empty if it is valid.
  std::string read(const std::string &schedule, bool reduced = true) {
    std::string result = reduced ? "tensor<4xf32>" : "tensor<4x64xf32>";
    std::string text =
        "func.func @f(%x: tensor<4x64xf32>) {\n %0 = kernel.loops [4, " +
        std::string(reduced ? "reduce " : "") +
        "64] (%x : tensor<4x64xf32>) -> " + result + " schedule(" + schedule +
        ") {\n %1 = kernel.load %x[d0 * 64 + d1] : tensor<4x64xf32>\n" +
        " %2 = math.exp %1 : f32\n" +
        (reduced ? " %3 = kernel.reduce sum %2 : f32\n"
                   " kernel.store %3 to 0[d0] : f32\n"
                 : " kernel.store %2 to 0[d0 * 64 + d1] : f32\n") +
        " }\n return\n}";
    message.clear();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return "does not parse: " + message;
    module->walk([&](LoopsOp loops) {
      FailureOr<KernelSchedule> schedule = KernelSchedule::read(loops);
      items = succeeded(schedule) ? schedule->numItems(loops) : 0;
    });
    return message;
  }
  void expectRefused(const std::string &schedule, const std::string &number,
                     bool reduced = true) {
    EXPECT_NE(read(schedule, reduced).find(number), std::string::npos)
        << schedule << ": " << message;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::string message;
  int64_t items = 0;
};

TEST_F(Schedules, AreReadWhereCodeCanBeMadeOfThem) {
  EXPECT_EQ(read("#cpu.schedule<row, items = [0], vector = 1, lanes = 32, "
                 "kept = [1]>"),
            "");
  EXPECT_EQ(read("#cpu.schedule<column, vector = 0, lanes = 16, "
                 "reductions = [1], part = 8>"),
            "");
  EXPECT_EQ(read("#cpu.schedule<map, items = [0], vector = 1, lanes = 16, "
                 "block = 32, tiled = 0, tile = 2>",
                 false),
            "");
}

TEST_F(Schedules, RunEveryVariableOnceInItsPlace) {
  expectRefused("#cpu.schedule<row, vector = 1, lanes = 16>", "[1]");
  expectRefused("#cpu.schedule<row, items = [0, 0], vector = 1, lanes = "
                "16>",
                "[1]");
  expectRefused("#cpu.schedule<row, items = [0, 7], vector = 1, lanes = "
                "16>",
                "[1]");
  expectRefused("#cpu.schedule<row, items = [0], vector = 9, lanes = 16>",
                "[1]");
  expectRefused("#cpu.schedule<column, items = [1], vector = 0, lanes = "
                "16>",
                "[1]");
  expectRefused("#cpu.schedule<row, vector = 1, reductions = [0], lanes = "
                "16>",
                "[1]");
}

TEST_F(Schedules, AreOfTheKindThatTheLoopsAre) {
  expectRefused("#cpu.schedule<column, items = [0], vector = 1, lanes = "
                "16>",
                "[2]");
  expectRefused("#cpu.schedule<row, items = [0], vector = 1, lanes = 16>",
                "[2]", false);
  expectRefused("#cpu.schedule<scatter, items = [0], vector = 1, lanes = "
                "16, rows = 1>",
                "[2]", false);
}

TEST_F(Schedules, KeepValuesOfRowsAlone) {
  expectRefused("#cpu.schedule<row, items = [0], vector = 1, lanes = 16, "
                "kept = [2]>",
                "[3]");
  expectRefused("#cpu.schedule<row, items = [0], vector = 1, lanes = 16, "
                "kept = [3]>",
                "[3]");
  expectRefused("#cpu.schedule<map, items = [0], vector = 1, lanes = 16, "
                "kept = [1]>",
                "[3]", false);
}

TEST_F(Schedules, HaveSizesThatFit) {
  for (const char *sizes : {"lanes = 0", "lanes = 12", "lanes = 16, block = 24",
                            "lanes = 16, block = -16", "lanes = 16, part = -1",
                            "lanes = 16, grain = 0"})
    expectRefused("#cpu.schedule<row, items = [0], vector = 1, " +
                      std::string(sizes) + ">",
                  "[4]");
  expectRefused("#cpu.schedule<map, items = [0], vector = 1, lanes = 16, "
                "tiled = 0>",
                "[4]", false);
}

/// A row per item; tiles of the outer variable, and blocks of the inner one.
TEST_F(Schedules, CountTheItemsOfARange) {
  ASSERT_EQ(read("#cpu.schedule<row, items = [0], vector = 1, lanes = 32>"),
            "");
  EXPECT_EQ(items, 4);
  ASSERT_EQ(read("#cpu.schedule<map, items = [0], vector = 1, lanes = 16, "
                 "block = 48, tiled = 0, tile = 3>",
                 false),
            "");
  EXPECT_EQ(items, 2 * 2);
}

TEST_F(Schedules, TileItemsOfMapsAlone) {
  expectRefused("#cpu.schedule<map, items = [0], vector = 1, lanes = 16, "
                "tiled = 1, tile = 4>",
                "[5]", false);
  expectRefused("#cpu.schedule<row, items = [0], vector = 1, lanes = 16, "
                "tiled = 0, tile = 4>",
                "[5]");
}

TEST_F(Schedules, AreACpus) {
  EXPECT_NE(read("\"fast\"").find("has no schedule for a cpu"),
            std::string::npos)
      << message;
}

} // namespace
