// What the CPU says of a library call, and what it writes to the plan.

#include "compiler/target/Target.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"
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
                              const std::string &attributes = "") {
    std::string x = "tensor<8x16x" + type + ">",
                w = "tensor<16x4x" + type + ">";
    module = parseSourceString<ModuleOp>(
        "func.func @f(%x: " + x + ", %w: " + w + ") {\n" +
            "%y = rank.gemm %x at [0, 16, 1], %w at [0, 4, 1] sizes [8, 4, 16] "
            "row 4 batch [] " +
            attributes + ": (" + x + ", " + w + ") -> tensor<8x4x" + type +
            ">\nreturn }",
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
