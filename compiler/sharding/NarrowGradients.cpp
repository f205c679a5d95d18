// Gradients that are rounded before they are added up over devices.

#include "compiler/sharding/NarrowGradients.h"

#include "dialects/graph/Parts.h"
#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

graph::ConvertOp polyrank::sharding::getNarrowing(graph::GradientOp gradient) {
  Value value = gradient.getInput();
  if (auto reshard = value.getDefiningOp<ReshardOp>())
    value = reshard->getOperand(0);
  auto convert = value.getDefiningOp<graph::ConvertOp>();
  return convert && convert.getParts() ? convert : graph::ConvertOp();
}

/// Gives `value` elements of this type, with all that reads it, up to the
/// conversions to this type, which it replaces.
static void widen(Value value, Type element,
                  llvm::SetVector<Operation *> *own) {
  value.setType(cast<RankedTensorType>(value.getType()).clone(element));
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    auto convert = dyn_cast<graph::ConvertOp>(user);
    if (!convert) {
      for (Value result : user->getResults())
        widen(result, element, own);
      continue;
    }
    convert.getResult().replaceAllUsesWith(value);
    if (own)
      own->remove(convert);
    convert.erase();
  }
}

void polyrank::sharding::widenGradient(graph::GradientOp gradient,
                                       llvm::SetVector<Operation *> *own) {
  graph::ConvertOp narrowing = getNarrowing(gradient);
  Value source = narrowing.getInput();
  Type element = graph::getGlobalType(source).getElementType();
  for (OpOperand &use :
       llvm::make_early_inc_range(narrowing.getResult().getUses())) {
    use.set(source);
    for (Value result : use.getOwner()->getResults())
      widen(result, element, own);
  }
  narrowing.erase();
}
