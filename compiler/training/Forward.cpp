// What the training passes ask of an imported model.

#include "compiler/training/Forward.h"

#include "dialects/graph/Parts.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace polyrank;

FailureOr<func::FuncOp> training::getForward(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward || !llvm::hasSingleElement(forward.getBody()))
    return module.emitError("expected a function @forward of one block");
  return forward;
}

static std::optional<StringRef> findName(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().getValue();
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (auto name = findName(part))
        return name;
  return std::nullopt;
}

std::string training::getUserName(Operation *op) {
  return findName(op->getLoc()).value_or(op->getName().getStringRef()).str();
}

void training::eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

Value training::withoutUnitDims(Value value) {
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
