// Which products and tiles the CPU gives to attention, and what it writes to
// the plan.

#include "compiler/target/Target.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"
#include "runtime/device/cpu/Attention.h"
#include "runtime/plan/plan_generated.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;

namespace {

class AttentionLibrary : public testing::Test {
protected:
  AttentionLibrary() {
    DialectRegistry registry;
    registerDialects(registry);
    cpu::registerTarget(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// Attention of one head, or its gradient, whose rows have these elements.
  rank::LibraryCallOp attention(const std::string &type, bool isGrad,
                                int64_t length = 4096, int64_t width = 64,
                                const std::string &ofModule = "",
                                const std::string &call = "") {
    std::string n = std::to_string(length), w = std::to_string(width);
    std::string size = std::to_string(length * width);
    std::string rows = "tensor<1x1x" + n + "x" + w + "x" + type + ">";
    std::string sums = "tensor<1x1x" + n + "xf32>";
    std::string in = " at [0, " + size + ", " + size + ", " + w + "]";
    std::string out = "[" + size + ", " + size + ", " + w + "]";
    std::string sizes = " sizes [1, 1, 1, " + n + ", " + n + ", " + w + ", " +
                        w + "] {scale = 0.5 : f64, causal = true" + call +
                        "} : (";
    std::string text =
        isGrad ? "%dq, %dk, %dv = rank.attention_grad %x" + in + ", %x" + in +
                     ", %x" + in + ", %x" + in + ", %x" + in + ", %l to " +
                     out + ", " + out + ", " + out + sizes + rows + ", " +
                     rows + ", " + rows + ", " + rows + ", " + rows + ", " +
                     sums + ") -> (" + rows + ", " + rows + ", " + rows + ")"
               : "%y, %lse = rank.attention %x" + in + ", %x" + in + ", %x" +
                     in + " to " + out + sizes + rows + ", " + rows + ", " +
                     rows + ") -> (" + rows + ", " + sums + ")";
    module = parseSourceString<ModuleOp>(
        "module attributes {" + ofModule + "} {\nfunc.func @f(%x: " + rows +
            ", %l: " + sums + ") {\n" + text + "\nreturn } }",
        &context);
    rank::LibraryCallOp found;
    module->walk([&](rank::LibraryCallOp op) { found = op; });
    target = *target::getLibraryTarget(*module);
    return found;
  }

  std::string chosen(rank::LibraryCallOp op) {
    target.chooseCalls({op}, 1, /*measure=*/false);
    std::string text;
    llvm::raw_string_ostream(text) << op.getCallAttr();
    return text;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  target::LibraryTarget target;
};

std::string best() {
  return runtime::hasTileProducts(runtime::TileProducts::BFloat16) ? "bfloat16"
                                                                   : "widened";
}

TEST_F(AttentionLibrary, TakesTheProductsOfTheElements) {
  for (bool isGrad : {false, true}) {
    EXPECT_EQ(chosen(attention("f32", isGrad)),
              "#cpu.attention<queries = 128, keys = 512>");
    EXPECT_EQ(chosen(attention("f16", isGrad)),
              "#cpu.attention<queries = 128, keys = 256, products = widened>");
    EXPECT_EQ(chosen(attention("bf16", isGrad)),
              "#cpu.attention<queries = 128, keys = 256, products = " + best() +
                  ">");
  }
}

// Plans for another machine, and those that keep denormal numbers, cannot leave
// bf16 to instructions that the machine may lack and that flush.
TEST_F(AttentionLibrary, WidensWhereTheInstructionIsNoChoice) {
  for (std::string ofModule :
       {"rank.machine = #rank.machine<#cpu.target<\"x86-64-v3\">>",
        "rank.denormals = \"keep\""})
    EXPECT_EQ(chosen(attention("bf16", true, 4096, 64, ofModule)),
              "#cpu.attention<queries = 128, keys = 256, products = widened>");
}

TEST_F(AttentionLibrary, TakesFewerKeysWhereScratchWouldBeLarge) {
  for (const char *type : {"bf16", "f16"})
    for (bool isGrad : {false, true})
      for (int64_t width : {64, 256}) {
        rank::LibraryCallOp op = attention(type, isGrad, 1 << 16, width);
        chosen(op);
        EXPECT_LE(*target.getScratchBytes(op, 1), 2 << 20)
            << type << " " << width;
      }
}

TEST_F(AttentionLibrary, IsWrittenWithItsTypesAndProducts) {
  for (bool isGrad : {false, true}) {
    rank::LibraryCallOp op = attention("bf16", isGrad, 64, 8, "",
                                       ", call = #cpu.attention<queries = 32, "
                                       "keys = 48, products = bfloat16>");
    runtime::plan::CallT call;
    ASSERT_TRUE(succeeded(target.writeCall(op, call)));
    EXPECT_EQ(call.text, " in tiles of 32x48 bfloat16");
    EXPECT_EQ(call.library_bytes, 0u) << "oneDNN packs nothing";
    const runtime::plan::CpuAttentionT *body = call.body.AsCpuAttention();
    ASSERT_TRUE(body);
    EXPECT_EQ(body->type, runtime::plan::ElementType::BF16);
    EXPECT_EQ(body->products, runtime::plan::TileProducts::BFloat16);
    EXPECT_EQ(body->block_keys, 48);
  }
  rank::LibraryCallOp op = attention(
      "f16", false, 64, 8, "",
      ", call = #cpu.attention<queries = 32, keys = 48, products = widened>");
  runtime::plan::CallT call;
  ASSERT_TRUE(succeeded(target.writeCall(op, call)));
  EXPECT_EQ(call.text, " in tiles of 32x48 widened");
  EXPECT_EQ(call.library_bytes, uint64_t(15) << 20)
      << "sgemm multiplies what is widened";
  EXPECT_EQ(call.body.AsCpuAttention()->type, runtime::plan::ElementType::F16);
}

} // namespace
