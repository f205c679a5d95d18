// check-partition: checks what the verifiers of single ops cannot see, because
// it concerns the whole function.

#include "compiler/sharding/Passes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Graph.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace polyrank;
using sharding::LayoutAttr;

namespace polyrank::sharding {
#define GEN_PASS_DEF_CHECKPARTITION
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

namespace {
class CheckPartition
    : public sharding::impl::CheckPartitionBase<CheckPartition> {
  void runOnOperation() override;

  LogicalResult checkLayout(Value value, const Twine &name);
  LogicalResult checkOps();
  LogicalResult checkBoundary(Location location, StringRef name, Type type,
                              bool isState);
  LogicalResult checkArguments();
  LogicalResult checkResults();

  sharding::MeshAttr mesh;
};
} // namespace

// Checks P1.
LogicalResult CheckPartition::checkLayout(Value value, const Twine &name) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return success();
  LayoutAttr layout = sharding::getLayout(type);
  if (!layout)
    return emitError(value.getLoc())
           << name << " of type " << type
           << " has no layout; after partitioning every tensor needs one "
              "(propagate-layouts writes them)";
  if (mesh && layout.getMesh() != mesh)
    return emitError(value.getLoc())
           << name << " is laid out over " << layout.getMesh()
           << ", other values over " << mesh;
  mesh = layout.getMesh();
  return success();
}

// Checks P1 and P2 inside the function.
LogicalResult CheckPartition::checkOps() {
  WalkResult walked = getOperation().getBody().walk([&](Operation *op) {
    if (graph::isInScan(op))
      return WalkResult::advance();
    if (isa<sharding::ReshardOp>(op)) {
      op->emitOpError("is left, but the program is partitioned; plan-reshards "
                      "lowers it to collectives");
      return WalkResult::interrupt();
    }
    if (sharding::isMarkedComposite(op)) {
      op->emitOpError("is a composite that is still split; "
                      "decompose-composites decomposes it");
      return WalkResult::interrupt();
    }
    for (OpResult result : op->getResults())
      if (failed(
              checkLayout(result, "result " + Twine(result.getResultNumber()) +
                                      " of " + op->getName().getStringRef())))
        return WalkResult::interrupt();
    if (isa<graph::ScanOp>(op)) // its arguments match its operands
      return WalkResult::advance();
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        if (failed(checkLayout(
                argument, "block argument " + Twine(argument.getArgNumber()) +
                              " of " + op->getName().getStringRef())))
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

// Checks P3 and P4.
LogicalResult CheckPartition::checkBoundary(Location location, StringRef name,
                                            Type type, bool isState) {
  LayoutAttr layout = sharding::getLayout(type);
  if (!layout)
    return success();
  std::string step = ("at the boundary of @" + getOperation().getName()).str();
  if (layout.isPartial())
    return emitError(location)
           << name << " is a partial "
           << stringifyReductionKind(layout.getPartialKind()) << " over "
           << mesh.toString(layout.getPartialAxes()) << " " << step
           << ", where values are whole or split; reduce it "
              "(sharding.all_reduce or sharding.reduce_scatter)";
  for (auto [d, dim] : llvm::enumerate(layout.getDims()))
    if (isState && dim.getPadded() && dim.getFill() != sharding::Fill::Zero)
      return emitError(location)
             << name << " dim " << d << " is padded to " << dim.getPadded()
             << " without 'fill zero' " << step
             << ", where the padding of parameters and state holds zeros "
                "(sharding.fill)";
  return success();
}

LogicalResult CheckPartition::checkArguments() {
  graph::Boundary boundary(getOperation());
  for (BlockArgument argument : getOperation().getArguments()) {
    unsigned number = argument.getArgNumber();
    std::string name = boundary.describe(number);
    if (failed(checkLayout(argument, name)) ||
        failed(checkBoundary(argument.getLoc(), name, argument.getType(),
                             boundary.isKept(number))))
      return failure();
  }
  return success();
}

// Checks P3 to P5.
LogicalResult CheckPartition::checkResults() {
  func::FuncOp function = getOperation();
  auto result =
      cast<func::ReturnOp>(function.getBody().front().getTerminator());
  graph::Boundary boundary(function);
  for (auto [i, value] : llvm::enumerate(result.getOperands())) {
    std::string name = "result " + std::to_string(i);
    std::optional<unsigned> replaced = boundary.getReplaced(i);
    if (auto output = boundary.getResult<graph::OutputAttr>(i))
      name = ("output `" + output.getName().getValue() + "`").str();
    else if (replaced)
      name = "the new value of " + boundary.describe(*replaced);
    if (failed(checkBoundary(value.getLoc(), name, value.getType(), false)))
      return failure();
    if (replaced && value.getType() != function.getArgumentTypes()[*replaced])
      return emitError(value.getLoc())
             << name << " is " << value.getType() << ", but takes the place of "
             << function.getArgumentTypes()[*replaced]
             << ": the layouts at both ends of the step are the same";
  }
  return success();
}

void CheckPartition::runOnOperation() {
  if (getOperation().isDeclaration())
    return;
  if (failed(checkArguments()) || failed(checkOps()) || failed(checkResults()))
    signalPassFailure();
}
