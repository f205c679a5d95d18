// Chooses layouts again for ops among others that keep their layouts.

#include "compiler/sharding/LayOutAgain.h"

#include "compiler/sharding/WriteLayouts.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Returns the layout that users outside `inside` want of the value. If all of
/// them are reshards to one layout, that layout is returned and the reshards
/// are erased.
static LayoutAttr
takeReshards(Value value, const llvm::SmallPtrSetImpl<Operation *> &inside) {
  LayoutAttr target;
  SmallVector<ReshardOp> reshards;
  for (Operation *user : value.getUsers()) {
    if (inside.contains(user))
      continue;
    auto reshard = dyn_cast<ReshardOp>(user);
    if (!reshard || reshard->getNumResults() != 1 ||
        (target && target != getLayout(reshard->getResult(0))))
      return getLayout(value);
    target = getLayout(reshard->getResult(0));
    reshards.push_back(reshard);
  }
  if (!target || target.isPartial())
    return getLayout(value);
  for (ReshardOp reshard : reshards) {
    reshard->getResult(0).replaceAllUsesWith(value);
    reshard.erase();
  }
  return target;
}

LogicalResult polyrank::sharding::layOutAgain(ArrayRef<Operation *> given,
                                              MeshAttr mesh, StringRef reason) {
  llvm::SmallPtrSet<Operation *, 16> inside(given.begin(), given.end());
  SmallVector<Operation *> ops;
  // Drops the reshards among the ops.
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
      LayoutAttr layout = takeReshards(result, inside);
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : result.getUses())
        if (!inside.contains(use.getOwner()))
          uses.push_back(&use);
      if (!uses.empty()) {
        wanted[result] = layout.withPartial(layout.getPartialKind(), {});
        outside.push_back({result, uses});
      }
      result.setType(withLayout(typeOf(result), nullptr));
    }
  FailureOr<SuppliedValues> supplied =
      layOutParts(mesh, ops, wanted, reason, /*isUpdate=*/true);
  if (failed(supplied))
    return failure();
  for (auto &[value, uses] : outside)
    for (OpOperand *use : uses)
      use->set(supplied->lookup(value));
  return success();
}
