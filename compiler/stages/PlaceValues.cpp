// place-values: writes the place of each value along the pipe axis into its
// layout.

#include "compiler/stages/Passes.h"
#include "compiler/stages/StageFlow.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;
using sharding::LayoutAttr;

namespace polyrank::stages {
#define GEN_PASS_DEF_MARKSTAGES
#define GEN_PASS_DEF_PLACEVALUES
#include "compiler/stages/Passes.h.inc"
} // namespace polyrank::stages

static void markStages(func::FuncOp function, const StageFlow &flow) {
  function.getBody().walk([&](Operation *op) {
    if (!isa<graph::MicrobatchesOp>(op) &&
        !op->hasTrait<OpTrait::IsTerminator>())
      graph::setStage(op, flow.getStage(op));
  });
}

namespace {
/// Writes the places of one function.
class Placer {
public:
  Placer(func::FuncOp function, sharding::MeshAttr mesh,
         const pipeline::Stages &stages)
      : function(function), stages(stages), axis(mesh.lookup(stages.axis)),
        flow(function) {}

  LogicalResult run();

private:
  void place(Value value);
  void place(Block &block);
  LogicalResult finishJoin(pipeline::JoinOp join);

  func::FuncOp function;
  const pipeline::Stages &stages;
  int32_t axis;
  StageFlow flow;
};
} // namespace

void Placer::place(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  LayoutAttr layout = type ? sharding::getLayout(type) : LayoutAttr();
  std::optional<int64_t> stage = flow.getStage(value);
  if (!layout || !stage)
    return;
  sharding::Place place{axis, stages.coordinates[*stage]};
  value.setType(sharding::withLayout(
      type, LayoutAttr::get(layout.getMesh(), layout.getDims(),
                            layout.getPartialKind(), layout.getPartialAxes(),
                            place)));
}

void Placer::place(Block &block) {
  for (BlockArgument argument : block.getArguments())
    place(argument);
  for (Operation &op : block) {
    for (Value result : op.getResults())
      place(result);
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        place(inner);
  }
}

/// A joined value is partial; it is reduced immediately.
LogicalResult Placer::finishJoin(pipeline::JoinOp join) {
  auto type = cast<RankedTensorType>(join.getType());
  LayoutAttr layout = sharding::getLayout(type);
  if (!layout)
    return join.emitOpError("has no layout: propagate-layouts comes first");
  if (layout.getMesh().getAxisSizes()[axis] == 1)
    return success();
  SmallVector<sharding::AxisRef> axes(layout.getPartialAxes());
  axes.push_back(layout.getMesh().getAxis(axis));
  join.getResult().setType(
      sharding::withLayout(type, layout.withPartial(join.getKind(), axes)));
  OpBuilder builder(join->getContext());
  builder.setInsertionPointAfter(join);
  auto reduced = sharding::AllReduceOp::create(
      builder, join.getLoc(), TypeRange(type), ValueRange(join.getResult()),
      sharding::ReasonAttr());
  graph::copyProvenance(join, reduced);
  join.getResult().replaceAllUsesExcept(reduced->getResult(0), reduced);
  return success();
}

LogicalResult Placer::run() {
  if (failed(verifyStages(function)))
    return failure();
  markStages(function, flow);
  place(function.getBody().front());
  WalkResult joined = function.walk([&](pipeline::JoinOp join) {
    return failed(finishJoin(join)) ? WalkResult::interrupt()
                                    : WalkResult::advance();
  });
  if (joined.wasInterrupted())
    return failure();
  function.setType(FunctionType::get(
      function.getContext(), function.getBody().getArgumentTypes(),
      function.getBody().front().getTerminator()->getOperandTypes()));
  return success();
}

namespace {
struct MarkStages : stages::impl::MarkStagesBase<MarkStages> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.isDeclaration() &&
        pipeline::getStages(function->getParentOfType<ModuleOp>()))
      markStages(function, StageFlow(function));
  }
};

struct PlaceValues : stages::impl::PlaceValuesBase<PlaceValues> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto module = function->getParentOfType<ModuleOp>();
    std::optional<pipeline::Stages> stages = pipeline::getStages(module);
    sharding::MeshAttr mesh = sharding::getMesh(module);
    if (function.isDeclaration() || !stages)
      return;
    if (!mesh) {
      module.emitError("has stages, but no mesh (sharding.mesh)");
      return signalPassFailure();
    }
    if (failed(Placer(function, mesh, *stages).run()))
      signalPassFailure();
  }
};
} // namespace
