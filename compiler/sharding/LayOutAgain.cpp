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

/// Where all that is outside of `inside` gets the value from reshards to one
/// layout, they are erased, and that layout is what is wanted of it.
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
