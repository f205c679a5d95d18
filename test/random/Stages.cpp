// Random stages of a pipeline.

#include "test/random/Stages.h"

#include "compiler/stage_order/Schedule.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;

namespace {
struct Form {
  const char *schedule;
  int64_t ranks, chunks;
};
} // namespace

static const Form forms[] = {
    {"gpipe", 2, 1},       {"1f1b", 2, 1},          {"1f1b", 3, 1},
    {"1f1b", 4, 1},        {"gpipe", 2, 2},         {"interleaved", 2, 2},
    {"zero-bubble", 2, 1}, {"zero-bubble", 3, 1},   {"zero-bubble-v", 2, 2},
    {"gpipe", 4, 1},       {"zero-bubble-v", 1, 2}, {"interleaved", 1, 3}};

/// Returns true if a stage reads a parameter that another stage updates for the
/// next microbatch. Two chunks of one coordinate cannot do this: no microbatch
/// goes forward in between.
static bool hasCarriedApart(func::FuncOp forward) {
  graph::Boundary boundary(forward);
  for (BlockArgument argument : forward.getArguments()) {
    std::optional<unsigned> next = boundary.getNext(argument.getArgNumber());
    if (!next)
      continue;
    Operation *giver = forward.getBody()
                           .front()
                           .getTerminator()
                           ->getOperand(*next)
                           .getDefiningOp();
    for (Operation *user : argument.getUsers())
      if (!giver || graph::getStage(user) != graph::getStage(giver))
        return true;
  }
  return false;
}

int64_t polyrank::test::drawStages(ModuleOp module, Random &random) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  Form form = forms[random.below(std::size(forms))];
  int64_t stages = form.ranks * form.chunks;
  graph::Boundary boundary(forward);
  int64_t bump = random.pick({5, 15, 40});
  SmallVector<Operation *> staged;
  for (Operation &op : forward.getBody().front().without_terminator()) {
    int64_t stage = -1;
    for (Value operand : op.getOperands()) {
      if (auto argument = dyn_cast<BlockArgument>(operand);
          argument && boundary.getParameter(argument.getArgNumber()))
        stage = std::max<int64_t>(stage, 0);
      if (Operation *producer = operand.getDefiningOp())
        stage = std::max(stage, graph::getStage(producer).value_or(-1));
    }
    if (stage < 0)
      continue;
    while (stage + 1 < stages && random.chance(bump))
      ++stage;
    graph::setStage(&op, stage);
    staged.push_back(&op);
  }
  if (staged.empty() || (form.chunks > 1 && hasCarriedApart(forward))) {
    for (Operation *op : staged)
      graph::setStage(op, std::nullopt);
    return 0;
  }
  Builder builder(module.getContext());
  auto coordinates =
      stage_order::getCoordinates(form.schedule, form.ranks, form.chunks);
  module->setAttr(pipeline::axisAttrName, builder.getStringAttr(pipeAxis));
  module->setAttr(pipeline::coordinatesAttrName,
                  builder.getDenseI64ArrayAttr(*coordinates));
  module->setAttr(pipeline::scheduleAttrName,
                  builder.getStringAttr(form.schedule));
  return form.ranks;
}
