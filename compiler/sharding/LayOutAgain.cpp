// Layouts for ops that stand between others that have theirs.

#include "compiler/sharding/LayOutAgain.h"

#include "compiler/sharding/WriteLayouts.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

LogicalResult polyrank::sharding::layOutAgain(ArrayRef<Operation *> given,
                                              MeshAttr mesh, StringRef reason) {
  llvm::SmallPtrSet<Operation *, 16> inside(given.begin(), given.end());
  SmallVector<Operation *> ops;
  // Without the reshards among them.
  for (Operation *op : given) {
    if (!isa<ReshardOp>(op)) {
      ops.push_back(op);
      continue;
    }
    inside.erase(op);
    for (auto [operand, result] :
         llvm::zip_equal(op->getOperands(), op->getResults()))
      result.replaceUsesWithIf(operand, [&](OpOperand &use) {
        return inside.contains(use.getOwner());
      });
  }
  for (Operation *op : llvm::reverse(given))
    if (isa<ReshardOp>(op) && op->use_empty())
      op->erase();
  if (ops.empty())
    return success();

  llvm::MapVector<Value, LayoutAttr> wanted;
  SmallVector<std::pair<Value, SmallVector<OpOperand *>>> outside;
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : result.getUses())
        if (!inside.contains(use.getOwner()))
          uses.push_back(&use);
      LayoutAttr layout = getLayout(result);
      if (!uses.empty()) {
        wanted[result] = layout.withPartial(layout.getPartialKind(), {});
        outside.push_back({result, uses});
      }
      result.setType(withLayout(typeOf(result), nullptr));
    }
  FailureOr<SuppliedValues> supplied =
      layOutParts(mesh, ops, wanted, reason);
  if (failed(supplied))
    return failure();
  for (auto &[value, uses] : outside)
    for (OpOperand *use : uses)
      use->set(supplied->lookup(value));
  return success();
}
