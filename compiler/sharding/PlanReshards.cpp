// plan-reshards: lowers each sharding.reshard to collectives.

#include "compiler/cost/ReachAttr.h"
#include "compiler/cost/ReshardPlanner.h"
#include "compiler/sharding/Passes.h"

using namespace mlir;
using namespace polyrank;
using cost::ReshardPlanner;

namespace polyrank::sharding {
#define GEN_PASS_DEF_PLANRESHARDS
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

static LogicalResult lower(sharding::ReshardOp op, ReshardPlanner &planner) {
  OpBuilder builder(op);
  for (auto [input, output] :
       llvm::zip_equal(op.getInputs(), op.getOutputs())) {
    auto type = cast<RankedTensorType>(input.getType());
    sharding::LayoutAttr target = sharding::getLayout(output);
    std::string reason;
    const ReshardPlanner::Plan *plan = planner.plan(type, target, &reason);
    if (!plan)
      return op.emitOpError("cannot go from layout ")
             << sharding::getLayout(type).toString() << " to "
             << target.toString() << ": " << reason;
    Value value = input;
    for (const ReshardPlanner::Step &step : plan->steps) {
      OperationState state(op.getLoc(),
                           "sharding." + sharding::getName(step.kind).str());
      state.addOperands(value);
      state.addTypes(sharding::withLayout(type, step.layout));
      // The attributes include `why`: each part has the reshard's reason.
      state.addAttributes(op->getAttrs());
      value = builder.create(state)->getResult(0);
    }
    output.replaceAllUsesWith(value);
  }
  op.erase();
  return success();
}

namespace {
struct PlanReshards : sharding::impl::PlanReshardsBase<PlanReshards> {
  void runOnOperation() override {
    SmallVector<sharding::ReshardOp> reshards;
    getOperation().walk(
        [&](sharding::ReshardOp op) { reshards.push_back(op); });
    llvm::MapVector<sharding::MeshAttr, std::unique_ptr<ReshardPlanner>>
        planners;
    rank::MachineAttr machine = rank::getMachine(getOperation());
    for (sharding::ReshardOp op : reshards) {
      sharding::MeshAttr mesh = sharding::getLayout(op->getResult(0)).getMesh();
      std::unique_ptr<ReshardPlanner> &planner = planners[mesh];
      if (!planner)
        planner = std::make_unique<ReshardPlanner>(
            cost::CostModel(mesh, machine, cost::getReach(getOperation())));
      if (failed(lower(op, *planner)))
        signalPassFailure();
    }
  }
};
} // namespace
