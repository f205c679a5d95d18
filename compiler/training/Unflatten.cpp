// unflatten: moves reshapes that merge leading dims down.

#include "compiler/training/Passes.h"
#include "compiler/training/ReshapeMotion.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Forward.h"

namespace polyrank::training {
#define GEN_PASS_DEF_UNFLATTENPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// Returns true if the value is a parameter, or a reshape of one.
static bool isParameter(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getInput();
  return graph::Boundary::isParameterOrState(value);
}

/// Moves merges of leading dims everywhere; merges of other dims only if a
/// matmul contracts them and its weight can be split in their place.
static bool shouldMove(graph::ReshapeOp, const ReshapeGroup &group,
                       OpOperand &use) {
  if (group.result[0] == 0)
    return true;
  auto matmul = dyn_cast<graph::MatmulOp>(use.getOwner());
  if (!matmul)
    return false;
  bool left = use.getOperandNumber() == 0;
  return isParameter(left ? matmul.getRhs() : matmul.getLhs()) &&
         llvm::is_contained(left ? matmul.getLhsContract()
                                 : matmul.getRhsContract(),
                            group.result[0]);
}

namespace {
class Unflatten : public training::impl::UnflattenPassBase<Unflatten> {
  void runOnOperation() override {
    FailureOr<func::FuncOp> forward = graph::getForward(getOperation());
    if (failed(forward))
      return signalPassFailure();
    moveMergesDown(forward->getBody().front(), shouldMove);
  }
};
} // namespace
