// Reverse mode within one block.

#include "dialects/graph/Reverse.h"

#include "dialects/graph/SliceGradients.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

static bool isFloat(Value value) {
  return isa<FloatType>(
      cast<RankedTensorType>(value.getType()).getElementType());
}

Dependents polyrank::graph::findDependents(Block &block, ValueRange values) {
  Dependents dependents;
  dependents.roots.assign(values.begin(), values.end());
  dependents.values.insert(values.begin(), values.end());
  auto varies = [&](Value value) { return dependents.values.contains(value); };
  for (Operation &op : block) {
    if (isa<DetachOp>(op) || llvm::none_of(op.getOperands(), varies) ||
        llvm::any_of(op.getResults(), varies))
      continue;
    dependents.ops.push_back(&op);
    for (Value result : op.getResults())
      if (isFloat(result))
        dependents.values.insert(result);
  }
  return dependents;
}

LogicalResult
polyrank::graph::addCotangents(OpBuilder &builder, const Dependents &dependents,
                               Cotangents &cotangents,
                               llvm::function_ref<void(Operation *)> enter) {
  SliceGradients slices(dependents.ops);
  auto accumulate = [&](Value value, Value gradient, Location location) {
    Value &sum = cotangents[value];
    sum = sum ? AddOp::create(builder, location, sum, gradient).getResult()
              : gradient;
  };
  // Called when all uses of `value` have been met.
  auto settle = [&](Value value) {
    if (SliceOp slice = slices.getFirst(value)) {
      enter(slice);
      accumulate(value, slices.join(builder, value), slice.getLoc());
    }
  };
  for (Operation *op : llvm::reverse(dependents.ops)) {
    llvm::for_each(op->getResults(), settle);
    SmallVector<Value> incoming =
        llvm::map_to_vector(op->getResults(), [&](Value value) {
          return cotangents.lookup(value);
        });
    if (llvm::none_of(incoming, [](Value value) { return !!value; }))
      continue;
    auto graphOp = dyn_cast<GraphOp>(op);
    if (!graphOp)
      return op->emitError("has no gradient");
    enter(op);
    if (auto slice = dyn_cast<SliceOp>(op); slice && slices.takes(slice)) {
      slices.add(slice, incoming[0]);
      continue;
    }
    SmallVector<bool> needed =
        llvm::map_to_vector(op->getOperands(), [&](Value value) {
          return dependents.values.contains(value);
        });
    auto gradients = graphOp.buildGradient(builder, incoming, needed);
    if (failed(gradients))
      return failure();
    for (auto [operand, gradient, isNeeded] :
         llvm::zip_equal(op->getOperands(), *gradients, needed))
      if (gradient && isNeeded)
        accumulate(operand, gradient, op->getLoc());
  }
  llvm::for_each(dependents.roots, settle);
  return success();
}
