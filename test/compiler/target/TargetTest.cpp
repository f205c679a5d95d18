// The compiler asks its target, and nothing else, how kernels and products run:
// with another one, all passes do what that one says.

#include <gtest/gtest.h>

#include "compiler/codegen/Passes.h"
#include "compiler/lowering/Passes.h"
#include "compiler/target/Target.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace polyrank;

namespace {

constexpr int64_t abacusScratch = 4096;

/// A target that computes one op at a time and needs the same scratch for every
/// product.
struct Abacus : target::TargetInterface::ExternalModel<Abacus, StringAttr> {
  StringRef getName(Attribute) const { return "abacus"; }
  LogicalResult checkMachine(Attribute, std::string &) const {
    return success();
  }
  bool hasCode(Attribute, Operation *op) const { return true; }
  std::optional<target::KernelMeasure>
  measureKernel(Attribute, kernel::LoopsOp loops) const {
    if (llvm::range_size(loops.getBlock().getOps<math::ExpOp>()) +
            llvm::range_size(loops.getBlock().getOps<math::SqrtOp>()) >
        1)
      return std::nullopt;
    return target::KernelMeasure{1, 0, false, false};
  }
  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    kernel.setRange(7);
    return success();
  }
  FailureOr<target::CompiledKernels> compileKernels(Attribute, ModuleOp,
                                                    StringRef) const {
    return target::CompiledKernels();
  }
  void chooseCalls(Attribute, ArrayRef<rank::GemmOp> gemms, int64_t,
                   bool) const {
    for (rank::GemmOp gemm : gemms)
      gemm.setCallAttr(UnitAttr::get(gemm.getContext()));
  }
  FailureOr<int64_t> getScratchBytes(Attribute, rank::GemmOp, int64_t) const {
    return abacusScratch;
  }
};

const char *program = R"mlir(
module attributes {rank.target = "abacus"} {
  func.func @step(%x: tensor<8x16xf32> {graph.role = #graph.input<"x">}, %w: tensor<16x4xf32> {graph.role = #graph.input<"w">}) -> (tensor<8x4xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = graph.exp %0 : tensor<8x4xf32>
    %2 = graph.sqrt %1 : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}
)mlir";

class Targets : public testing::Test {
protected:
  Targets() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      message += diagnostic.str();
      return success();
    });
    module = parseSourceString<ModuleOp>(program, &context);
  }
  bool lower() {
    PassManager manager(&context);
    manager.addPass(lowering::createFormGemms());
    manager.addPass(codegen::createFormKernels());
    manager.addPass(codegen::createLowerKernels());
    manager.addPass(lowering::createChooseGemms());
    manager.addPass(lowering::createAssignBuffers());
    return succeeded(manager.run(*module));
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  std::string message;
};

TEST_F(Targets, SayHowKernelsAndProductsRun) {
  StringAttr::attachInterface<Abacus>(context);
  ASSERT_TRUE(lower()) << message;
  int kernels = 0;
  module->walk([&](rank::KernelOp kernel) {
    ++kernels;
    EXPECT_EQ(kernel.getRange(), 7u);
  });
  EXPECT_EQ(kernels, 2) << "exp and sqrt are kernels of their own";
  module->walk([&](rank::GemmOp gemm) {
    EXPECT_TRUE(isa<UnitAttr>(gemm.getCallAttr()));
    ASSERT_TRUE(gemm.getScratchAttr());
    EXPECT_EQ(gemm.getScratchAttr().getSize(), abacusScratch);
  });
}

TEST_F(Targets, AreRefusedByNameWhereThereIsNoCodeForThem) {
  EXPECT_FALSE(lower());
  EXPECT_NE(message.find("has 'rank.target' \"abacus\", for which this program "
                         "can make no code"),
            std::string::npos)
      << message;
}

TEST_F(Targets, AreTheCpuWhereTheModuleSaysNothing) {
  (*module)->removeAttr(rank::targetAttrName);
  EXPECT_FALSE(lower()) << "this test was built without a CPU's code";
  EXPECT_NE(message.find("#rank.cpu<\"native\">"), std::string::npos)
      << message;
}

} // namespace
