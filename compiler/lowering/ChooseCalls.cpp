// choose-calls: the target chooses the library function of each call.

#include "compiler/cost/Machine.h"
#include "compiler/lowering/Passes.h"

using namespace mlir;
using namespace polyrank;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHOOSECALLS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {
struct ChooseCallsPass : lowering::impl::ChooseCallsBase<ChooseCallsPass> {
  using ChooseCallsBase::ChooseCallsBase;

  void runOnOperation() override {
    SmallVector<rank::LibraryCallOp> calls;
    getOperation().walk(
        [&](rank::LibraryCallOp call) { calls.push_back(call); });
    if (calls.empty())
      return;
    auto machine = cost::Machine::of(getOperation());
    auto target = target::getLibraryTarget(getOperation());
    if (failed(machine) || failed(target))
      return signalPassFailure();
    target->chooseCalls(calls, machine->getThreads(), measure);
  }
};
} // namespace
