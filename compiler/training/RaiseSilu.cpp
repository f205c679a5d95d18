// Raises silu from its ops.

#include "compiler/training/RaiseComposites.h"

#include "dialects/graph/Forward.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

bool training::raiseSilu(graph::SigmoidOp op) {
  Value x = op.getInput();
  bool isRaised = false;
  for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
    auto product = dyn_cast<graph::MulOp>(user);
    if (!product || (product.getLhs() != x && product.getRhs() != x))
      continue;
    OpBuilder builder(product);
    auto silu = graph::SiluOp::create(builder, op.getLoc(), x);
    graph::copyProvenance(op, silu);
    product.getResult().replaceAllUsesWith(silu.getResult());
    isRaised = true;
  }
  return isRaised;
}
