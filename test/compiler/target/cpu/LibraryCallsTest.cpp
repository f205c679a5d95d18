// What the CPU says of a library call, and what it writes to the plan.

#include "compiler/target/Target.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"
#include "runtime/device/cpu/Gemm.h"
#include "runtime/plan/plan_generated.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;

namespace {

class LibraryCalls : public testing::Test {
protected:
  LibraryCalls() {
    DialectRegistry registry;
    registerDialects(registry);
    cpu::registerTarget(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      message += diagnostic.str();
      return success();
    });
  }

  /// A product of 8x16 and 16x4 matrices of this type.
  rank::LibraryCallOp product(const std::string &type,
                              const std::string &attributes = "",
                              const std::string &ofModule = "",
                              const std::string &result = "") {
    std::string x = "tensor<8x16x" + type + ">",
                w = "tensor<16x4x" + type + ">";
    module = parseSourceString<ModuleOp>(
        "module attributes {" + ofModule + "} {\nfunc.func @f(%x: " + x +
            ", %w: " + w + ") {\n" +
            "%y = rank.gemm %x at [0, 16, 1], %w at [0, 4, 1] sizes [8, 4, 16] "
            "row 4 batch [] " +
            attributes + ": (" + x + ", " + w + ") -> tensor<8x4x" +
            (result.empty() ? type : result) + ">\nreturn } }",
        &context);
    rank::LibraryCallOp found;
    module->walk([&](rank::LibraryCallOp call) { found = call; });
    target = *target::getLibraryTarget(*module);
    return found;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  target::LibraryTarget target;
  std::string message;
};

TEST_F(LibraryCalls, AreOfTheElementsThatOneDnnMultiplies) {
  rank::LibraryCallOp floats = product("f32");
  EXPECT_TRUE(target.checkCall(floats));
  rank::LibraryCallOp doubles = product("f64");
  Result<void> has = target.checkCall(doubles);
  ASSERT_FALSE(has);
  EXPECT_EQ(has.error().message,
            "multiplies 'f64', for which this device has no library call; "
            "convert the operands to f32");
  EXPECT_TRUE(failed(target.getScratchBytes(doubles, 1)));
  EXPECT_NE(message.find("multiplies 'f64'"), std::string::npos) << message;
}

TEST_F(LibraryCalls, AddNarrowElementsInF32) {
  for (const char *type : {"bf16", "f16"}) {
    for (const char *result : {type, "f32"}) {
      rank::LibraryCallOp call =
          product(type, "{accumulator = f32} ", "", result);
      EXPECT_TRUE(target.checkCall(call)) << type << " to " << result;
      EXPECT_TRUE(succeeded(target.getScratchBytes(call, 2))) << message;
    }
    Result<void> has = target.checkCall(product(type));
    ASSERT_FALSE(has);
    EXPECT_EQ(has.error().message,
              std::string("multiplies '") + type + "' and adds in '" + type +
                  "', for which this device has no library call; convert the "
                  "operands to f32");
  }
}

TEST_F(LibraryCalls, OfNarrowElementsAreWrittenWithTheirTypes) {
  runtime::plan::CallT call;
  rank::LibraryCallOp op = product(
      "f16", "{accumulator = f32, call = #cpu.call<widened>} ", "", "f32");
  call.text = op.getText();
  ASSERT_TRUE(succeeded(target.writeCall(op, call))) << message;
  EXPECT_EQ(call.text, "gemm 8x4x16 f16 to f32 Widened");
  EXPECT_EQ(call.library_bytes, uint64_t(15) << 20)
      << "sgemm multiplies what is widened";
  const runtime::plan::CpuGemmT *body = call.body.AsCpuGemm();
  ASSERT_TRUE(body);
  EXPECT_EQ(body->implementation, runtime::plan::GemmImplementation::Widened);
  EXPECT_EQ(body->operands, runtime::plan::ElementType::F16);
  EXPECT_EQ(body->accumulator, runtime::plan::ElementType::F32);
  EXPECT_EQ(body->result, runtime::plan::ElementType::F32);
  // 8 x 16 and 16 x 4 floats that are widened, and 8 x 4 sums, of each thread.
  EXPECT_EQ(*target.getScratchBytes(op, 1), 4 * (8 * 16 + 16 * 4 + 8 * 4));
  EXPECT_EQ(*target.getScratchBytes(op, 3), 3 * 4 * (8 * 16 + 16 * 4 + 8 * 4));
}

// Plans for another machine, and those that keep denormal numbers, cannot leave
// bf16 to instructions that the machine may lack and that flush.
TEST_F(LibraryCalls, OfBFloat16AreWidenedWhereThePrimitiveIsNoChoice) {
  auto chosen = [&](const std::string &ofModule) {
    rank::LibraryCallOp op = product("bf16", "{accumulator = f32} ", ofModule);
    target.chooseCalls({op}, 1, /*measure=*/true);
    std::string text;
    llvm::raw_string_ostream(text) << op.getCallAttr();
    return text;
  };
  EXPECT_EQ(chosen(R"(rank.machine = #rank.machine<#cpu.target<"x86-64-v3">>)"),
            "#cpu.call<widened>");
  EXPECT_EQ(chosen("rank.denormals = \"keep\""), "#cpu.call<widened>");
  EXPECT_EQ(chosen(""),
            runtime::hasNarrowMatmul(ElementType::BF16, ElementType::BF16)
                ? "#cpu.call<matmul>"
                : "#cpu.call<widened>");
}

TEST_F(LibraryCalls, OfNarrowElementsAreNotGivenToSgemm) {
  EXPECT_TRUE(failed(target.getScratchBytes(
      product("bf16", "{accumulator = f32, call = #cpu.call<sgemm>} "), 1)));
  EXPECT_NE(message.find("sgemm multiplies f32, and the plan has bf16"),
            std::string::npos)
      << message;
}

TEST_F(LibraryCalls, AreWrittenWithTheirFunction) {
  runtime::plan::CallT call;
  call.text = "gemm 8x4x16";
  rank::LibraryCallOp op =
      product("f32", "{call = #cpu.call<matmul, pieces = 4>} ");
  ASSERT_TRUE(succeeded(target.writeCall(op, call))) << message;
  EXPECT_EQ(call.text, "gemm 8x4x16 in 4 Matmul");
  EXPECT_EQ(call.library_bytes, 0u);
  const runtime::plan::CpuGemmT *body = call.body.AsCpuGemm();
  ASSERT_TRUE(body);
  EXPECT_EQ(body->implementation, runtime::plan::GemmImplementation::Matmul);
  EXPECT_EQ(body->operands, runtime::plan::ElementType::F32);
  EXPECT_EQ(body->pieces, 4u);
  EXPECT_EQ(std::tuple(body->m, body->n, body->k), std::tuple(8, 4, 16));

  call = {};
  ASSERT_TRUE(succeeded(
      target.writeCall(product("f32", "{call = #cpu.call<sgemm>} "), call)));
  EXPECT_EQ(call.text, " Sgemm");
  EXPECT_EQ(call.library_bytes, uint64_t(15) << 20)
      << "what it packs for each thread";
}

TEST_F(LibraryCalls, AreNotWrittenBeforeAFunctionIsChosen) {
  runtime::plan::CallT call;
  EXPECT_TRUE(failed(target.writeCall(product("f32"), call)));
  EXPECT_NE(message.find("has no call: choose-calls comes first"),
            std::string::npos)
      << message;
}

} // namespace
