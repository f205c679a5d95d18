// choose-gemms: the target chooses how each product is computed.

#include "compiler/lowering/Passes.h"
#include "compiler/target/Target.h"

using namespace mlir;
using namespace polyrank;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHOOSEGEMMS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {
struct ChooseGemmsPass : lowering::impl::ChooseGemmsBase<ChooseGemmsPass> {
  using ChooseGemmsBase::ChooseGemmsBase;

  void runOnOperation() override {
    auto target = target::getTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<rank::GemmOp> gemms;
    getOperation().walk([&](rank::GemmOp gemm) { gemms.push_back(gemm); });
    target->chooseCalls(gemms, threads, measure);
  }
};
} // namespace
