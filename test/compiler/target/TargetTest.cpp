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

/// A target that finds exp and abs together too large for a kernel and cannot
/// compute exp and sqrt in one, sums three values at once, copies at no cost,
/// prefers GEMMs with few columns and needs the same scratch for every GEMM.
struct Abacus : target::TargetInterface::ExternalModel<Abacus, StringAttr> {
  StringRef getName(Attribute) const { return "abacus"; }
  Result<void> checkMachine(Attribute) const { return {}; }
  int64_t getAlignment(Attribute) const { return 512; }
  target::Rates getRates(Attribute, int64_t) const { return {1, 1}; }
  double getProductSpeed(Attribute, Type) const { return 1; }
};

template <typename Op>
int64_t countOps(kernel::LoopsOp loops) {
  return llvm::range_size(loops.getBlock().getOps<Op>());
}

struct AbacusMeasure : target::KernelMeasure {
  bool isTooLarge = false;
};

struct AbacusKernels
    : target::KernelTarget::ExternalModel<AbacusKernels, StringAttr> {
  bool hasCode(Attribute, Operation *op) const { return true; }
  target::KernelMeasurePtr measureKernel(Attribute,
                                         kernel::LoopsOp loops) const {
    if (countOps<math::ExpOp>(loops) + countOps<math::SqrtOp>(loops) > 1)
      return nullptr;
    auto measure = std::make_shared<AbacusMeasure>();
    measure->isTooLarge =
        countOps<math::AbsFOp>(loops) && countOps<math::ExpOp>(loops);
    return measure;
  }
  bool isBetterAsOne(Attribute, const target::KernelMeasure &merged,
                     const target::KernelMeasure &,
                     const target::KernelMeasure &) const {
    return !static_cast<const AbacusMeasure &>(merged).isTooLarge;
  }
  int64_t getFusionDistance(Attribute) const { return fusionDistance; }
  int64_t getSumPart(Attribute, graph::ReduceOp sum) const {
    return sum.getInput().getType().getNumElements() > 6 ? sumPart : 0;
  }
  LogicalResult scheduleKernel(Attribute, rank::KernelOp kernel) const {
    FailureOr<kernel::LoopsOp> loops = target::loopsOf(kernel);
    if (succeeded(loops))
      loops->setScheduleAttr(StringAttr::get(kernel.getContext(), "beads"));
    return loops;
  }
  FailureOr<target::CompiledKernels>
  compileKernels(Attribute, ModuleOp, const target::CompileSettings &) const {
    return target::CompiledKernels();
  }
  LogicalResult writeLaunch(Attribute, rank::KernelOp,
                            runtime::plan::LaunchT &) const {
    return success();
  }
  static inline int64_t fusionDistance = 100;
};

struct AbacusLibrary
    : target::LibraryTarget::ExternalModel<AbacusLibrary, StringAttr> {
  Result<void> checkCall(Attribute, rank::LibraryCallOp) const { return {}; }
  bool isFasterThanParts(Attribute, rank::LibraryCallOp) const { return false; }

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
  double estimateProducts(Attribute, int64_t, int64_t n, int64_t,
                          int64_t) const {
    return static_cast<double>(n);
  }
  double estimateCopy(Attribute, int64_t) const { return 0; }
  bool isBetterTransposed(Attribute, graph::MatmulOp product,
                          int64_t iterations) const {
    return iterations == 2 && product.getRhsContract() == ArrayRef<int64_t>(0);
  }
};

const char *program = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
  func.func @step(%x: tensor<8x16xf32> {graph.role = #graph.input<"x">}, %w: tensor<16x4xf32> {graph.role = #graph.input<"w">}) -> (tensor<8x4xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = graph.exp %0 : tensor<8x4xf32>
    %2 = graph.sqrt %1 : tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}
)mlir";

const char *absolute = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
  func.func @step(%x: tensor<8xf32> {graph.role = #graph.input<"x">}) -> (tensor<8xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.exp %x : tensor<8xf32>
    %1 = graph.abs %0 : tensor<8xf32>
    %2 = graph.neg %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
)mlir";

/// Two functions of one input, and another one between them.
const char *distant = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
  func.func @step(%x: tensor<8xf32> {graph.role = #graph.input<"x">}, %y: tensor<4xf32> {graph.role = #graph.input<"y">}) -> (tensor<8xf32> {graph.role = #graph.output<"a">}, tensor<8xf32> {graph.role = #graph.output<"b">}) {
    %0 = graph.neg %x : tensor<8xf32>
    %1 = graph.neg %0 : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}
)mlir";

/// A loop of two iterations, each with two products by one matrix.
const char *scan = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
  func.func @step(%x: tensor<2x4x16xf32> {graph.role = #graph.input<"x">}, %w: tensor<16x16xf32> {graph.role = #graph.input<"w">}, %h: tensor<4x16xf32> {graph.role = #graph.input<"h">}) -> (tensor<2x4x16xf32> {graph.role = #graph.output<"y">}) {
    %ys, %last = graph.scan 2 of(%x) carry(%h) uses(%w) {
    ^body(%xt: tensor<4x16xf32>, %ht: tensor<4x16xf32>, %v: tensor<16x16xf32>):
      %1 = graph.matmul %ht, %v batch [] x [] contract [1] x [0] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
      %2 = graph.matmul %1, %v batch [] x [] contract [1] x [1] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
      %3 = graph.add %2, %xt : tensor<4x16xf32>
      graph.scan_yield stack(%3) carry(%3) : tensor<4x16xf32>, tensor<4x16xf32>
    } : (tensor<2x4x16xf32>, tensor<4x16xf32>, tensor<16x16xf32>) -> (tensor<2x4x16xf32>, tensor<4x16xf32>)
    return %ys : tensor<2x4x16xf32>
  }
}
)mlir";

/// A loop that adds up.
const char *scanWithoutProducts = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
  func.func @step(%x: tensor<2x4xf32> {graph.role = #graph.input<"x">}, %h: tensor<4xf32> {graph.role = #graph.input<"h">}) -> (tensor<2x4xf32> {graph.role = #graph.output<"y">}) {
    %ys, %last = graph.scan 2 of(%x) carry(%h) uses() {
    ^body(%xt: tensor<4xf32>, %ht: tensor<4xf32>):
      %1 = graph.add %ht, %xt : tensor<4xf32>
      graph.scan_yield stack(%1) carry(%1) : tensor<4xf32>, tensor<4xf32>
    } : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
    return %ys : tensor<2x4xf32>
  }
}
)mlir";

/// A sum of twelve values for each of two results.
const char *longSum = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
  func.func @step(%x: tensor<2x3x4xf32> {graph.role = #graph.input<"x">}) -> (tensor<2xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.reduce sum %x over [1, 2] : (tensor<2x3x4xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
)mlir";

/// A sum of 99 values for each of two results, over the first and the last dim.
const char *apart = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
  func.func @step(%x: tensor<33x2x3xf32> {graph.role = #graph.input<"x">}) -> (tensor<2xf32> {graph.role = #graph.output<"y">}) {
    %0 = graph.reduce sum %x over [0, 2] : (tensor<33x2x3xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
)mlir";

/// A GEMM of 8x16 and 16x4 matrices whose result is needed transposed.
const char *turned = R"mlir(
module attributes {rank.machine = #rank.machine<"abacus">} {
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
  void attach() {
    StringAttr::attachInterface<Abacus, AbacusKernels, AbacusLibrary>(context);
  }
  bool lower() {
    PassManager manager(&context);
    manager.addPass(lowering::createFormLoops());
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
  attach();
  ASSERT_TRUE(lower()) << message;
  int kernels = 0;
  module->walk([&](kernel::LoopsOp loops) {
    ++kernels;
    EXPECT_EQ(loops.getScheduleAttr(), StringAttr::get(&context, "beads"));
  });
  EXPECT_EQ(kernels, 2) << "exp and sqrt are kernels of their own";
  module->walk([&](rank::GemmOp gemm) {
    EXPECT_TRUE(isa<UnitAttr>(gemm.getCallAttr()));
    ASSERT_TRUE(gemm.getScratchAttr());
    EXPECT_EQ(gemm.getScratchAttr().getSize(), abacusScratch);
  });
}

TEST_F(Targets, SayWhatIsTooLargeForAKernel) {
  attach();
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
  attach();
  ASSERT_TRUE(lower(longSum)) << message;
  EXPECT_EQ(sumsOf(*module), (SmallVector<int64_t>{3, 4}));
}

int64_t countLaunches(ModuleOp module) {
  int64_t count = 0;
  module.walk([&](rank::LaunchOp) { ++count; });
  return count;
}

TEST_F(Targets, SayHowFarApartTheOpsOfAKernelAre) {
  attach();
  AbacusKernels::fusionDistance = 0;
  bool isLowered = lower(distant);
  AbacusKernels::fusionDistance = 100;
  ASSERT_TRUE(isLowered) << message;
  EXPECT_EQ(countLaunches(*module), 2);
  ASSERT_TRUE(lower(distant)) << message;
  EXPECT_EQ(countLaunches(*module), 1);
}

/// Parts of five values: of twelve the last part is filled up.
TEST_F(Targets, SayPartsThatDoNotComeOutEven) {
  attach();
  sumPart = 5;
  bool isLowered = lower(longSum);
  sumPart = 3;
  ASSERT_TRUE(isLowered) << message;
  EXPECT_EQ(sumsOf(*module), (SmallVector<int64_t>{3, 5}));
}

/// Of the sum over dims 0 and 2, ten values are three rows of three, of 33
/// rows.
TEST_F(Targets, SayPartsOfDimsThatLieApart) {
  attach();
  sumPart = 10;
  bool isLowered = lower(apart);
  sumPart = 3;
  ASSERT_TRUE(isLowered) << message;
  EXPECT_EQ(sumsOf(*module), (SmallVector<int64_t>{9, 11}));
}

TEST_F(Targets, AreRefusedWhereAPartIsLongerThanTheSum) {
  attach();
  for (int64_t wrong : {13, -1}) {
    message.clear();
    sumPart = wrong;
    bool isLowered = lower(longSum);
    sumPart = 3;
    EXPECT_FALSE(isLowered);
    EXPECT_NE(message.find("sums 12 values, which the target 'abacus' wants in "
                           "parts of " +
                           std::to_string(wrong)),
              std::string::npos)
        << message;
  }
}

/// The two products of the loop read the matrix in different orders.
TEST_F(Targets, SayWhichMatricesOfALoopAreTransposed) {
  attach();
  module = parseSourceString<ModuleOp>(scan, &context);
  PassManager manager(&context);
  manager.addPass(lowering::createFormLoops());
  ASSERT_TRUE(module && succeeded(manager.run(*module))) << message;
  SmallVector<bool> areLast;
  module->walk([&](graph::MatmulOp product) {
    areLast.push_back(product.getRhsContract() == ArrayRef<int64_t>(1));
  });
  EXPECT_EQ(areLast, (SmallVector<bool>{true, true}));
  module->walk([&](rank::LoopOp loop) {
    EXPECT_EQ(loop.getUses().size(), 2u) << "the matrix and its transpose";
  });
}

TEST_F(Targets, SayWhatProductsAndCopiesCost) {
  attach();
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
  EXPECT_NE(message.find("has 'rank.machine' with the target \"abacus\", for "
                         "which this program can make no code"),
            std::string::npos)
      << message;
}

TEST_F(Targets, AreRefusedByNameWhereTheyHaveNoLibraryOrKernels) {
  StringAttr::attachInterface<Abacus>(context);
  EXPECT_FALSE(lower());
  EXPECT_NE(message.find("is for the target 'abacus', which has no library of "
                         "GEMMs"),
            std::string::npos)
      << message;
  message.clear();
  EXPECT_FALSE(lower(absolute));
  EXPECT_NE(message.find("is for the target 'abacus', which has no code for "
                         "kernels"),
            std::string::npos)
      << message;
}

TEST_F(Targets, NeedALibraryOnlyForItsCalls) {
  StringAttr::attachInterface<Abacus, AbacusKernels>(context);
  EXPECT_TRUE(lower(absolute)) << message;
  EXPECT_TRUE(lower(scanWithoutProducts)) << message;
  EXPECT_FALSE(lower(scan));
  EXPECT_NE(message.find("has no library of GEMMs"), std::string::npos)
      << message;
}

TEST_F(Targets, AreTheDefaultWhereTheModuleSaysNothing) {
  (*module)->removeAttr(rank::machineAttrName);
  EXPECT_FALSE(lower()) << "this test registers none";
  EXPECT_NE(message.find("has no target in its 'rank.machine', and this "
                         "program was built without one"),
            std::string::npos)
      << message;
  attach();
  context.getLoadedDialect<rank::RankDialect>()->setDefaultTarget(
      StringAttr::get(&context, "abacus"));
  EXPECT_TRUE(lower()) << message;
}

} // namespace
