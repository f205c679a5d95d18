// The compiler asks only its target how kernels and GEMMs run: with another
// target, all passes follow it.

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
int64_t sumPart = 3;

/// A target that computes one function at a time, finds exp and abs together
/// too large for a kernel, sums three values at once, copies at no cost,
/// prefers GEMMs with few columns and needs the same scratch for every GEMM.
struct Abacus : target::TargetInterface::ExternalModel<Abacus, StringAttr> {
  StringRef getName(Attribute) const { return "abacus"; }
  Result<void> checkMachine(Attribute) const { return {}; }
  bool hasCode(Attribute, Operation *op) const { return true; }
  std::optional<target::KernelMeasure>
  measureKernel(Attribute, kernel::LoopsOp loops) const {
    if (llvm::range_size(loops.getBlock().getOps<math::ExpOp>()) +
            llvm::range_size(loops.getBlock().getOps<math::SqrtOp>()) >
        1)
      return std::nullopt;
    bool isTooLarge = !loops.getBlock().getOps<math::AbsFOp>().empty() &&
                      !loops.getBlock().getOps<math::ExpOp>().empty();
    return target::KernelMeasure{isTooLarge, 0, false, false};
  }
  int64_t getSumPart(Attribute, int64_t count, int64_t results) const {
    return count > 3 ? sumPart : 0;
  }
  double estimateProducts(Attribute, int64_t, int64_t n, int64_t,
                          int64_t) const {
    return static_cast<double>(n);
  }
  double estimateCopy(Attribute, int64_t) const { return 0; }
  int64_t getAlignment(Attribute) const { return 512; }
  target::Rates getRates(Attribute, int64_t) const { return {1, 1}; }
  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    kernel.setRange(7);
    return success();
  }
  FailureOr<target::CompiledKernels> compileKernels(Attribute, ModuleOp,
                                                    StringRef) const {
    return target::CompiledKernels();
  }
  Result<void> checkCall(Attribute, rank::LibraryCallOp) const { return {}; }
  void chooseCalls(Attribute, ArrayRef<rank::LibraryCallOp> calls, int64_t,
                   bool) const {
    for (rank::LibraryCallOp call : calls)
      call.setCallAttr(UnitAttr::get(call.getContext()));
  }
  FailureOr<int64_t> getScratchBytes(Attribute, rank::LibraryCallOp,
                                     int64_t) const {
    return abacusScratch;
  }
  LogicalResult writeCall(Attribute, rank::LibraryCallOp,
                          runtime::plan::CallT &) const {
    return success();
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

const char *absolute = R"mlir(
module attributes {rank.target = "abacus"} {
  func.func @step(%x: tensor<8xf32> {graph.role = #graph.input<"x">}) -> (tensor<8xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.exp %x : tensor<8xf32>
    %1 = graph.abs %0 : tensor<8xf32>
    %2 = graph.neg %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
)mlir";

/// A sum of twelve values for each of two results.
const char *longSum = R"mlir(
module attributes {rank.target = "abacus"} {
  func.func @step(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.reduce sum %x over [1, 2] : (tensor<2x3x4xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
)mlir";

/// A GEMM of 8x16 and 16x4 matrices whose result is needed transposed.
const char *turned = R"mlir(
module attributes {rank.target = "abacus"} {
  func.func @step(%x: tensor<8x16xf32> {graph.role = #graph.input<"x">}, %w: tensor<16x4xf32> {graph.role = #graph.input<"w">}) -> (tensor<4x8xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
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
  bool lower(const char *other) {
    module = parseSourceString<ModuleOp>(other, &context);
    return module && lower();
  }
  bool lower() {
    PassManager manager(&context);
    manager.addPass(lowering::createFormGemms());
    manager.addPass(codegen::createFormKernels());
    manager.addPass(codegen::createLowerKernels());
    manager.addPass(lowering::createChooseCalls());
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

TEST_F(Targets, SayWhatIsTooLargeForAKernel) {
  StringAttr::attachInterface<Abacus>(context);
  ASSERT_TRUE(lower(absolute)) << message;
  EXPECT_EQ(llvm::range_size(module->getOps<rank::KernelOp>()), 2)
      << "one for exp, one for abs and neg";
}

/// Returns the number of values that each sum of the kernels adds, in order.
SmallVector<int64_t> sumsOf(ModuleOp module) {
  SmallVector<int64_t> sums;
  module.walk([&](kernel::LoopsOp loops) {
    if (loops.hasReductions())
      sums.push_back(loops.getNumPoints(/*ofReduced=*/true));
  });
  llvm::sort(sums);
  return sums;
}

TEST_F(Targets, SayInWhichPartsALongSumIsFormed) {
  StringAttr::attachInterface<Abacus>(context);
  ASSERT_TRUE(lower(longSum)) << message;
  EXPECT_EQ(sumsOf(*module), (SmallVector<int64_t>{3, 4}));
}

TEST_F(Targets, AreRefusedWherePartsDoNotMakeUpTheSum) {
  StringAttr::attachInterface<Abacus>(context);
  sumPart = 5;
  bool isLowered = lower(longSum);
  sumPart = 3;
  EXPECT_FALSE(isLowered);
  EXPECT_NE(message.find("sums 12 values, which the target 'abacus' wants in "
                         "parts of 5"),
            std::string::npos)
      << message;
}

TEST_F(Targets, SayWhatProductsAndCopiesCost) {
  StringAttr::attachInterface<Abacus>(context);
  ASSERT_TRUE(lower(turned)) << message;
  // A CPU would rather compute 4x8 results in place.
  module->walk([&](rank::GemmOp gemm) {
    EXPECT_EQ(gemm.getM(), 8);
    EXPECT_EQ(gemm.getN(), 1) << "columns one by one";
  });
  EXPECT_FALSE(module->getOps<rank::KernelOp>().empty())
      << "the transposed copy";
}

TEST_F(Targets, AreRefusedByNameWhereThereIsNoCodeForThem) {
  EXPECT_FALSE(lower());
  EXPECT_NE(message.find("has 'rank.target' \"abacus\", for which this program "
                         "can make no code"),
            std::string::npos)
      << message;
}

TEST_F(Targets, AreTheDefaultWhereTheModuleSaysNothing) {
  (*module)->removeAttr(rank::targetAttrName);
  EXPECT_FALSE(lower()) << "this test registers none";
  EXPECT_NE(message.find("has no 'rank.target', and this program was built "
                         "without a target"),
            std::string::npos)
      << message;
  StringAttr::attachInterface<Abacus>(context);
  context.getLoadedDialect<rank::RankDialect>()->setDefaultTarget(
      StringAttr::get(&context, "abacus"));
  EXPECT_TRUE(lower()) << message;
}

} // namespace
