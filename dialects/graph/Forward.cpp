// Functions on imported models that the training passes share.

#include "dialects/graph/Forward.h"

#include "dialects/graph/Parts.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace polyrank;

FailureOr<func::FuncOp> graph::getForward(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward || !llvm::hasSingleElement(forward.getBody()))
    return module.emitError("expected a function @forward of one block");
  return forward;
}

void graph::eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

Value graph::withoutUnitDims(Value value) {
  auto isUnit = [](int64_t size) { return size == 1; };
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>()) {
    SmallVector<int64_t> from(graph::getShape(reshape.getInput()));
    SmallVector<int64_t> to(graph::getShape(reshape));
    llvm::erase_if(from, isUnit);
    llvm::erase_if(to, isUnit);
    if (from != to)
      break;
    value = reshape.getInput();
  }
  return value;
}
