// Kernel schedules of the cuda target: the choice, and what is refused.

#include "compiler/target/cuda/KernelSchedule.h"

#include <gtest/gtest.h>

#include "compiler/target/cuda/CudaTarget.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cuda;

namespace {

class CudaSchedules : public testing::Test {
protected:
  CudaSchedules() : context(makeRegistry()) {
    context.loadAllAvailableDialects();
  }

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerDialects(registry);
    cuda::registerTarget(registry);
    return registry;
  }

  /// The loops of a kernel: `sizes` of variables, and a body that reads %x and
  /// has one result, both of which have the given types.
  LoopsOp parse(const std::string &sizes, const std::string &argument,
                const std::string &result, const std::string &body,
                const std::string &schedule = "") {
    std::string text =
        "func.func @f(%x: " + argument + ") -> " + result +
        " {\n%y = kernel.loops [" + sizes + "] (%x : " + argument + ") -> " +
        result +
        (schedule.empty() ? ""
                          : " schedule(#cuda.schedule<" + schedule + ">)") +
        " {\n" + body + "\n}\nreturn %y : " + result + "\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    LoopsOp loops;
    if (module)
      module->walk([&](LoopsOp op) { loops = op; });
    return loops;
  }

  LoopsOp row(int64_t rows, int64_t size, const std::string &schedule = "") {
    std::string n = std::to_string(rows), m = std::to_string(size);
    std::string type = "tensor<" + n + "x" + m + "xf32>";
    return parse(n + ", reduce " + m, type, "tensor<" + n + "xf32>",
                 "%0 = kernel.load %x[d0 * " + m + " + d1] : " + type +
                     "\n%1 = kernel.reduce sum %0 : f32\n"
                     "kernel.store %1 to 0[d0] : f32",
                 schedule);
  }
  LoopsOp column(int64_t rows, int64_t size, const std::string &schedule = "") {
    std::string n = std::to_string(rows), m = std::to_string(size);
    std::string type = "tensor<" + n + "x" + m + "xf32>";
    return parse("reduce " + n + ", " + m, type, "tensor<" + m + "xf32>",
                 "%0 = kernel.load %x[d0 * " + m + " + d1] : " + type +
                     "\n%1 = kernel.reduce sum %0 : f32\n"
                     "kernel.store %1 to 0[d1] : f32",
                 schedule);
  }
  LoopsOp map(int64_t size, const std::string &element,
              const std::string &schedule = "") {
    std::string n = std::to_string(size);
    std::string type = "tensor<" + n + "x" + element + ">";
    return parse(n, type, type,
                 "%0 = kernel.load %x[d0] : " + type +
                     "\nkernel.store %0 to 0[d0] : " + element,
                 schedule);
  }

  /// `height` x `width` values, which are read down the columns.
  LoopsOp transpose(int64_t height, int64_t width,
                    const std::string &schedule = "") {
    std::string n = std::to_string(height), m = std::to_string(width);
    std::string from = "tensor<" + m + "x" + n + "xf32>";
    return parse(n + ", " + m, from, "tensor<" + n + "x" + m + "xf32>",
                 "%0 = kernel.load %x[d0 + d1 * " + n + "] : " + from +
                     "\nkernel.store %0 to 0[d0 * " + m + " + d1] : f32",
                 schedule);
  }

  /// Windows of 3 x 3 places, with the channels of each place together.
  LoopsOp windows(const std::string &schedule = "") {
    std::string from = "tensor<4x10x10x40xf32>",
                to = "tensor<4x8x8x40x3x3xf32>";
    return parse("4, 8, 8, 40, 3, 3", from, to,
                 "%0 = kernel.load %x[d0 * 4000 + d1 * 400 + d2 * 40 + d3 + d4 "
                 "* 400 + d5 * 40] : " +
                     from +
                     "\nkernel.store %0 to 0[d0 * 23040 + d1 * 2880 + d2 * 360 "
                     "+ d3 * 9 + d4 * 3 + d5] : f32",
                 schedule);
  }

  static std::string chosen(LoopsOp loops) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << Attribute(scheduleLoops(loops).write(loops));
    return text;
  }

  /// What is wrong with the schedule of loops; empty if nothing is.
  std::string refusal(LoopsOp loops) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
    EXPECT_EQ(failed(KernelSchedule::read(loops)), !message.empty());
    return message;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(CudaSchedules, AThreadOfAMapHas16Bytes) {
  EXPECT_EQ(chosen(map(4096, "f32")),
            "#cuda.schedule<map, vector = 0, lanes = 4, threads = 256>");
  EXPECT_EQ(chosen(map(4096, "f64")),
            "#cuda.schedule<map, vector = 0, lanes = 2, threads = 256>");
  EXPECT_EQ(chosen(map(4096, "bf16")),
            "#cuda.schedule<map, vector = 0, lanes = 8, threads = 256>");
  EXPECT_EQ(chosen(map(4096, "i64")),
            "#cuda.schedule<map, vector = 0, lanes = 2, threads = 256>");
}

TEST_F(CudaSchedules, AThreadOfALargeMapHasSeveralVectors) {
  EXPECT_EQ(chosen(map(1 << 24, "f32")),
            "#cuda.schedule<map, vector = 0, lanes = 4, vectors = 4, "
            "threads = 256>");
}

TEST_F(CudaSchedules, ShortRowsShareAWarpAndLongOnesHaveABlock) {
  EXPECT_EQ(chosen(row(64, 16)),
            "#cuda.schedule<row, items = [0], vector = 1, lanes = 4, threads = "
            "128, sharing = 4, kept = 1>");
  EXPECT_EQ(chosen(row(64, 512)),
            "#cuda.schedule<row, items = [0], vector = 1, lanes = 4, threads = "
            "128, sharing = 32, kept = 4>");
  EXPECT_EQ(chosen(row(64, 768)),
            "#cuda.schedule<row, items = [0], vector = 1, lanes = 4, threads = "
            "192, sharing = 192, kept = 1>");
  EXPECT_EQ(chosen(row(64, 50257)),
            "#cuda.schedule<row, items = [0], vector = 1, threads = 512, "
            "sharing = 512>");
}

TEST_F(CudaSchedules, AColumnHasWarpsThatShareIt) {
  EXPECT_EQ(chosen(column(512, 768)),
            "#cuda.schedule<column, vector = 1, reductions = [0], threads = "
            "512, sharing = 16>");
  EXPECT_EQ(chosen(column(4, 64)),
            "#cuda.schedule<column, vector = 1, reductions = [0], threads = "
            "128, sharing = 4>");
  EXPECT_EQ(chosen(column(100000, 64)),
            "#cuda.schedule<column, vector = 1, reductions = [0], threads = "
            "1024, sharing = 32, part = 512>");
}

TEST_F(CudaSchedules, WhatLiesAcrossIsReadInTiles) {
  EXPECT_EQ(chosen(transpose(70, 100)),
            "#cuda.schedule<map, items = [0], vector = 1, tiled = 0, threads = "
            "256>");
  // Tiles would be nearly empty.
  EXPECT_EQ(chosen(transpose(3, 100)),
            "#cuda.schedule<map, items = [0], vector = 1, threads = 256>");
}

TEST_F(CudaSchedules, WindowsAreReadAlongTheirChannels) {
  EXPECT_EQ(chosen(windows()),
            "#cuda.schedule<map, items = [0, 1, 2, 3, 4], vector = 5, tiled = "
            "3, inside = [4], threads = 288>");
  // Two tiles of channels, for each place.
  LoopsOp loops = windows();
  EXPECT_EQ(scheduleLoops(loops).numBlocks(loops), 4 * 8 * 8 * 2);
  EXPECT_EQ(scheduleLoops(loops).countSharedBytes(loops), 9 * 33 * 4);
}

TEST_F(CudaSchedules, ABlockHasAtMost48KBOfSharedMemory) {
  std::string body = "%0 = kernel.load %x[d0 * 32 + d1] : tensor<64x32xf32>\n"
                     "%s0 = kernel.reduce sum %0 : f32\n";
  for (int i = 1; i < 13; ++i) {
    std::string number = std::to_string(i);
    body += "%p" + number + " = kernel.reduce max %0 : f32\n%s" + number +
            " = arith.addf %s" + std::to_string(i - 1) + ", %p" + number +
            " : f32\n";
  }
  body += "kernel.store %s12 to 0[d1] : f32";
  LoopsOp loops =
      parse("reduce 64, 32", "tensor<64x32xf32>", "tensor<32xf32>", body,
            "column, vector = 1, reductions = [0], threads = 1024, sharing = "
            "32");
  EXPECT_NE(refusal(loops).find("[8] needs 53248 bytes of shared memory; a "
                                "block has 49152"),
            std::string::npos)
      << refusal(loops);
}

TEST_F(CudaSchedules, AreReadAsTheyAreWritten) {
  auto check = [&](LoopsOp loops) {
    loops.setScheduleAttr(scheduleLoops(loops).write(loops));
    EXPECT_EQ(refusal(loops), "");
  };
  check(row(3, 40));
  check(column(5, 7));
  check(map(9, "f32"));
  check(transpose(70, 100));
  check(windows());
}

TEST_F(CudaSchedules, AreRefusedWhereTheyAreMissing) {
  EXPECT_NE(refusal(map(64, "f32")).find("has no schedule for cuda"),
            std::string::npos);
}

/// A schedule that breaks one rule, whose number the error has.
struct Wrong {
  const char *name, *rule, *kind, *schedule;
};

constexpr Wrong wrongs[] = {
    {"variableMissing", "[1]", "map", "map, threads = 256"},
    {"variableTwice", "[1]", "map",
     "map, items = [0], vector = 0, threads = 256"},
    {"unknownVariable", "[1]", "map", "map, vector = 7, threads = 256"},
    {"reducedItem", "[1]", "row",
     "column, items = [1], vector = 0, threads = 32"},
    {"parallelReduction", "[1]", "row",
     "row, vector = 1, reductions = [0], threads = 32"},
    {"otherKind", "[2]", "row",
     "map, vector = 0, reductions = [1], threads = 32"},
    {"columnAsRow", "[2]", "column",
     "row, vector = 1, reductions = [0], threads = 32"},
    {"lanesNoPower", "[3]", "map", "map, vector = 0, lanes = 3, threads = 256"},
    {"noLanes", "[3]", "map", "map, vector = 0, lanes = 0, threads = 256"},
    {"lanesOfAScalar", "[3]", "map",
     "map, items = [0], lanes = 2, threads = 256"},
    {"lanesDivideNoRow", "[3]", "row",
     "row, items = [0], vector = 1, lanes = 16, threads = 32"},
    {"lanesOfAColumn", "[3]", "column",
     "column, vector = 1, lanes = 2, reductions = [0], threads = 32"},
    {"noThreads", "[4]", "map", "map, vector = 0"},
    {"manyThreads", "[4]", "map", "map, vector = 0, threads = 1056"},
    {"threadsOfNoWarp", "[4]", "map", "map, vector = 0, threads = 48"},
    {"sharedMap", "[5]", "map", "map, vector = 0, threads = 64, sharing = 2"},
    {"sharedByMore", "[5]", "row",
     "row, items = [0], vector = 1, threads = 32, sharing = 64"},
    {"sharedByNoPower", "[5]", "row",
     "row, items = [0], vector = 1, threads = 96, sharing = 24"},
    {"sharedBySomeWarps", "[5]", "row",
     "row, items = [0], vector = 1, threads = 128, sharing = 64"},
    {"otherWarps", "[5]", "column",
     "column, vector = 1, reductions = [0], threads = 64, sharing = 4"},
    {"vectorsOfARow", "[6]", "row",
     "row, items = [0], vector = 1, vectors = 2, threads = 32"},
    {"noVectors", "[6]", "map", "map, vector = 0, vectors = 0, threads = 32"},
    {"partOfARow", "[6]", "row",
     "row, items = [0], vector = 1, threads = 32, part = 8"},
    {"negativePart", "[6]", "column",
     "column, vector = 1, reductions = [0], threads = 32, part = -1"},
    {"keptMap", "[6]", "map", "map, vector = 0, threads = 32, kept = 1"},
    {"tilesOfTheVector", "[7]", "transpose",
     "map, items = [0], vector = 1, tiled = 1, threads = 256"},
    {"tilesOfLanes", "[7]", "transpose",
     "map, items = [0], vector = 1, lanes = 2, tiled = 0, threads = 256"},
    {"tilesOfVectors", "[7]", "transpose",
     "map, items = [0], vector = 1, vectors = 2, tiled = 0, threads = 256"},
    {"tilesInPieces", "[7]", "transpose",
     "map, items = [0], vector = 1, tiled = 0, threads = 96"},
    {"insideTwice", "[7]", "windows",
     "map, items = [0, 1, 2, 3, 4], vector = 5, tiled = 3, inside = [4, 4], "
     "threads = 32"},
    {"insideOfItself", "[7]", "windows",
     "map, items = [0, 1, 2, 3, 4], vector = 5, tiled = 3, inside = [3], "
     "threads = 32"},
    {"insideIsTheVector", "[7]", "windows",
     "map, items = [0, 1, 2, 3, 4], vector = 5, tiled = 3, inside = [5], "
     "threads = 32"},
    {"insideOfNothing", "[7]", "windows",
     "map, items = [0, 1, 2, 3, 4], vector = 5, inside = [4], threads = 32"},
    {"windowsInPieces", "[7]", "windows",
     "map, items = [0, 1, 2, 3, 4], vector = 5, tiled = 3, inside = [4], "
     "threads = 256"},
    {"tilesOfARow", "[7]", "row",
     "row, items = [0], vector = 1, tiled = 0, threads = 32"},
    {"tilesOfNoVector", "[7]", "map",
     "map, items = [0], tiled = 0, threads = 256"},
    {"keepsSome", "[6]", "row",
     "row, items = [0], vector = 1, threads = 32, sharing = 4, kept = 9"},
};

class WrongCudaSchedules : public CudaSchedules,
                           public testing::WithParamInterface<Wrong> {};

TEST_P(WrongCudaSchedules, AreRefused) {
  const Wrong &wrong = GetParam();
  StringRef kind = wrong.kind;
  LoopsOp loops = kind == "map"         ? map(64, "f32", wrong.schedule)
                  : kind == "transpose" ? transpose(40, 40, wrong.schedule)
                  : kind == "windows"   ? windows(wrong.schedule)
                  : kind == "row"       ? row(8, 40, wrong.schedule)
                                        : column(8, 40, wrong.schedule);
  EXPECT_NE(refusal(loops).find(wrong.rule), std::string::npos)
      << refusal(loops);
}

INSTANTIATE_TEST_SUITE_P(Cuda, WrongCudaSchedules, testing::ValuesIn(wrongs),
                         [](const auto &info) { return info.param.name; });

TEST_F(CudaSchedules, ALaunchHasAtMost31BitsOfBlocks) {
  // 2^37 values in vectors of one, by blocks of 32 threads.
  LoopsOp loops = map(int64_t(1) << 37, "f32", "map, vector = 0, threads = 32");
  EXPECT_NE(refusal(loops).find("[4] has 4294967296 blocks"),
            std::string::npos);
}

} // namespace
