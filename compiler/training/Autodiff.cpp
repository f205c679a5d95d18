// Reverse-mode differentiation over the ops' own gradients.

#include "compiler/training/Autodiff.h"

#include "compiler/training/Forward.h"
#include "compiler/training/SliceGradients.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

namespace {

/// Marks the ops that are made while it listens.
class OriginMarker : public OpBuilder::Listener {
public:
  void differentiate(Operation *op) {
    origin = StringAttr::get(op->getContext(), graph::getUserName(op));
    scope = StringAttr::get(op->getContext(), graph::getScope(op));
    location = op->getLoc();
  }
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    if (!origin)
      return;
    graph::setOrigin(op, origin);
    if (!scope.empty())
      graph::setScope(op, scope);
    op->setLoc(*location);
  }

private:
  StringAttr origin, scope;
  std::optional<Location> location;
};

} // namespace

static bool isFloat(Value value) {
  return isa<FloatType>(
      cast<RankedTensorType>(value.getType()).getElementType());
}

FailureOr<SmallVector<Value>>
polyrank::training::buildGradients(OpBuilder &outer, Value root, Value seed,
                                   ValueRange values) {
  OriginMarker marker;
  OpBuilder builder(outer.getContext(), &marker);
  builder.restoreInsertionPoint(outer.saveInsertionPoint());

  // Which values vary with `values`, in program order.
  llvm::SmallDenseSet<Value> active(values.begin(), values.end());
  SmallVector<Operation *> ops;
  for (Operation &op : *outer.getBlock()) {
    auto isActive = [&](Value value) { return active.contains(value); };
    // What makes one of `values` is in front of what is differentiated.
    if (isa<graph::DetachOp>(op) || llvm::none_of(op.getOperands(), isActive) ||
        llvm::any_of(op.getResults(), isActive))
      continue;
    ops.push_back(&op);
    for (Value result : op.getResults())
      if (isFloat(result))
        active.insert(result);
  }

  DenseMap<Value, Value> cotangents{{root, seed}};
  SliceGradients slices(ops);
  auto accumulate = [&](Value value, Value gradient, Location location) {
    Value &sum = cotangents[value];
    sum = sum ? graph::AddOp::create(builder, location, sum, gradient)
                    .getResult()
              : gradient;
  };
  // All uses of `value` have been met.
  auto take = [&](Value value) {
    if (graph::SliceOp slice = slices.getFirst(value)) {
      marker.differentiate(slice);
      accumulate(value, slices.join(builder, value), slice.getLoc());
    }
    return cotangents.lookup(value);
  };
  for (Operation *op : llvm::reverse(ops)) {
    SmallVector<Value> incoming = llvm::map_to_vector(op->getResults(), take);
    if (llvm::none_of(incoming, [](Value value) { return !!value; }))
      continue;
    auto graphOp = dyn_cast<graph::GraphOp>(op);
    if (!graphOp)
      return op->emitError("has no gradient");
    marker.differentiate(op);
    if (auto slice = dyn_cast<graph::SliceOp>(op);
        slice && slices.takes(slice)) {
      slices.add(slice, incoming[0]);
      continue;
    }
    SmallVector<bool> needed = llvm::map_to_vector(
        op->getOperands(), [&](Value value) { return active.contains(value); });
    auto gradients = graphOp.buildGradient(builder, incoming, needed);
    if (failed(gradients))
      return failure();
    for (auto [operand, gradient, isNeeded] :
         llvm::zip_equal(op->getOperands(), *gradients, needed)) {
      if (gradient && isNeeded)
        accumulate(operand, gradient, op->getLoc());
    }
  }
  outer.restoreInsertionPoint(builder.saveInsertionPoint());
  return llvm::map_to_vector(values, take);
}
