// Reverse-mode differentiation over the ops' own gradients.

#include "compiler/training/Autodiff.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"
#include "dialects/graph/Reverse.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

namespace {

/// Marks ops with their origin as they are created.
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

FailureOr<SmallVector<Value>>
polyrank::training::buildGradients(OpBuilder &outer, Value root, Value seed,
                                   ValueRange values) {
  OriginMarker marker;
  OpBuilder builder(outer.getContext(), &marker);
  builder.restoreInsertionPoint(outer.saveInsertionPoint());

  graph::Cotangents cotangents{{root, seed}};
  if (failed(graph::addCotangents(
          builder, graph::findDependents(*outer.getBlock(), values), cotangents,
          [&](Operation *op) { marker.differentiate(op); })))
    return failure();
  outer.restoreInsertionPoint(builder.saveInsertionPoint());
  return llvm::map_to_vector(
      values, [&](Value value) { return cotangents.lookup(value); });
}
