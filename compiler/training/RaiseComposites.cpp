// raise-composites: finds gelu, silu, layer_norm, rms_norm, attention, stable
// logarithms, grouped matmuls and blocked reductions in their ops.

#include "compiler/training/RaiseComposites.h"

#include "compiler/training/Passes.h"
#include "dialects/graph/Forward.h"

namespace polyrank::training {
#define GEN_PASS_DEF_RAISECOMPOSITESPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// Removes ops that return their operand unchanged, since they hide what it is:
/// a mask combined with an all-true mask, for example, would not be a constant.
static void foldNeutralOps(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    SmallVector<OpFoldResult, 1> folded;
    if (op.getNumResults() != 1 || failed(op.fold(folded)) ||
        folded.size() != 1)
      continue;
    if (auto value = dyn_cast<Value>(folded.front());
        value && value != op.getResult(0)) {
      op.getResult(0).replaceAllUsesWith(value);
      op.erase();
    }
  }
}

namespace {
class RaiseComposites
    : public training::impl::RaiseCompositesPassBase<RaiseComposites> {
  void runOnOperation() override {
    FailureOr<func::FuncOp> forward = graph::getForward(getOperation());
    if (failed(forward))
      return signalPassFailure();
    Block &body = forward->getBody().front();
    foldNeutralOps(body);
    for (auto log : llvm::make_early_inc_range(body.getOps<graph::AtanhOp>()))
      spellLog1p(log);
    KnownBands bands;
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (isa<graph::TanhOp, graph::ErfOp>(op))
        raiseGelu(&op);
      else if (auto sigmoid = dyn_cast<graph::SigmoidOp>(op))
        raiseSilu(sigmoid);
      else if (auto log = dyn_cast<graph::LogOp>(op))
        raiseLogarithm(log);
      else if (auto matmul = dyn_cast<graph::MatmulOp>(op)) {
        if (!raiseAttention(matmul, bands))
          raiseGrouped(matmul);
      } else if (auto concat = dyn_cast<graph::ConcatOp>(op))
        raiseBlocks(concat);
      else
        raiseNormalization(&op);
    }
    graph::eraseDeadOps(body);
  }
};
} // namespace
