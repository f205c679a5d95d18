// What a GEMM answers as a library call: its bytes, key and text.

#include "dialects/Register.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;

namespace {

/// The GEMMs of a function whose arguments are %x, 2x4x16, %w, 32x16, %c,
/// 2x4x32, and %g and %i, the groups of eight rows and the ids of two groups.
struct Gemms {
  explicit Gemms(const std::string &body) {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(
        "func.func @f(%x: tensor<2x4x16xf32>, %w: tensor<32x16xf32>, "
        "%c: tensor<2x4x32xf32>, %g: tensor<8xi64>, %i: tensor<2xi64>) {" +
            body + "return }",
        &context);
    if (module)
      module->walk([&](rank::GemmOp gemm) { all.push_back(gemm); });
  }
  rank::LibraryCallOp operator[](size_t i) {
    return cast<rank::LibraryCallOp>(all[i].getOperation());
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  SmallVector<rank::GemmOp> all;
};

const std::string types = ": (tensor<2x4x16xf32>, tensor<32x16xf32>) -> "
                          "tensor<2x4x32xf32>\n",
                  linear = "rank.gemm %x at [0, 16, 1], %w at [0, 1, 16] sizes "
                           "[8, 32, 16] row 32 batch []";

} // namespace

TEST(Gemm, SaysWhatItComputes) {
  Gemms gemms("%0 = " + linear + types +
              "%1 = rank.gemm %x at [0, 16, 1], %w at [0, 1, 16] add %c sizes "
              "[4, 32, 16] row 32 batch [2, 64, 0, 128] : (tensor<2x4x16xf32>, "
              "tensor<32x16xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>\n"
              "%2 = rank.gemm %x at [0, 16, 1], %w at [0, 16, 1] groups %g ids "
              "%i sizes [8, 16, 16] row 16 batch [2, 0, 256, 0] {grouped = "
              "#rank.grouped<rows>} : (tensor<2x4x16xf32>, tensor<32x16xf32>, "
              "tensor<8xi64>, tensor<2xi64>) -> tensor<8x16xf32>\n");
  ASSERT_EQ(gemms.all.size(), 3u);
  EXPECT_EQ(gemms[0].getText(), "gemm 8x32x16 B^T");
  EXPECT_EQ(gemms[1].getText(), "gemm 4x32x16 B^T *2 +=");
  EXPECT_EQ(gemms[2].getText(), "gemm 8x16x16 *2 grouped rows");
  EXPECT_EQ(gemms[0].getAddendNumber(), std::nullopt);
  EXPECT_EQ(gemms[1].getAddendNumber(), 2u);
  // x, w, the result; and what it is added to.
  EXPECT_EQ(gemms[0].getBytes(), 4 * (128 + 512 + 256));
  EXPECT_EQ(gemms[1].getBytes(), 4 * (128 + 512 + 2 * 256));
  EXPECT_EQ(gemms[2].getBytes(), 4 * (128 + 512 + 128) + 8 * (8 + 2));
}

TEST(Gemm, NamesElementsThatAreAddedInAWiderType) {
  Gemms gemms(
      "%n = graph.convert %x : (tensor<2x4x16xf32>) -> tensor<2x4x16xbf16>\n"
      "%v = graph.convert %w : (tensor<32x16xf32>) -> tensor<32x16xbf16>\n"
      "%0 = rank.gemm %n at [0, 16, 1], %v at [0, 1, 16] sizes [8, 32, 16] row "
      "32 batch [] {accumulator = f32} : (tensor<2x4x16xbf16>, "
      "tensor<32x16xbf16>) -> tensor<2x4x32xbf16>\n"
      "%1 = rank.gemm %n at [16, 16, 1], %v at [0, 1, 16] add %c sizes [4, 32, "
      "16] row 32 batch [2, 0, 0, 128] {accumulator = f32} : "
      "(tensor<2x4x16xbf16>, tensor<32x16xbf16>, tensor<2x4x32xf32>) -> "
      "tensor<2x4x32xf32>\n");
  ASSERT_EQ(gemms.all.size(), 2u);
  EXPECT_EQ(gemms[0].getText(), "gemm 8x32x16 B^T bf16");
  EXPECT_EQ(gemms[1].getText(), "gemm 4x32x16 B^T *2 bf16 to f32 +=");
  EXPECT_EQ(gemms[0].getBytes(), 2 * (128 + 512 + 256));
  EXPECT_EQ(gemms[1].getBytes(), 2 * (64 + 512) + 4 * (256 + 256));
  EXPECT_EQ(gemms[1].getReadBegin(0), 2 * 16);
}

TEST(Gemm, CountsTheBytesThatItReads) {
  // A quarter of x, from byte 64 on; the one row of w for each of two products.
  Gemms gemms("%0 = rank.gemm %x at [16, 64, 1], %w at [0, 1, 16] sizes [1, 1, "
              "16] row 1 batch [2, 16, 0, 1] : (tensor<2x4x16xf32>, "
              "tensor<32x16xf32>) -> tensor<2x1xf32>\n");
  ASSERT_EQ(gemms.all.size(), 1u);
  EXPECT_EQ(gemms[0].getReadBegin(0), 64);
  EXPECT_EQ(gemms[0].getReadBegin(1), 0);
  EXPECT_EQ(gemms[0].getBytes(), 4 * (2 * 16 + 16 + 2));
}

TEST(Gemm, HasOneKeyWithThoseThatAreTheSameCall) {
  Gemms gemms(
      "%0 = " + linear + types + "%1 = " + linear +
      " {call = unit, scratch = #rank.buffer<private, 0, "
      "64>}" +
      types +
      "%2 = rank.gemm %x at [0, 16, 1], %w at [0, 32, 1] sizes [8, 32, 16] row "
      "32 batch [] " +
      types + "%3 = " + linear + " {alpha = 0.5 : f64}" + types +
      "%4 = rank.gemm %x at [0, 16, 1], %w at [0, 1, 16] add %c sizes [8, 32, "
      "16] row 32 batch [] : (tensor<2x4x16xf32>, tensor<32x16xf32>, "
      "tensor<2x4x32xf32>) -> tensor<2x4x32xf32>\n" +
      "%5 = " + linear + " {accumulator = f64}" + types);
  ASSERT_EQ(gemms.all.size(), 6u);
  EXPECT_EQ(gemms[0].getKey(), gemms[1].getKey());
  for (size_t other = 2; other < 6; ++other)
    EXPECT_NE(gemms[0].getKey(), gemms[other].getKey()) << other;
}
