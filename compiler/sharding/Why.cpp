// Prints the reasons that collectives carry.

#include "compiler/sharding/Why.h"

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/Passes.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

namespace polyrank::sharding {
#define GEN_PASS_DEF_PRINTWHY
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

static int64_t getExecutions(Operation *op) {
  int64_t count = 1;
  while ((op = op->getParentOp()))
    if (auto region = dyn_cast<graph::MicrobatchesOp>(op))
      count *= region.getCount();
  return count;
}

static std::string nameOf(Operation *op) {
  std::string name = op->getName().getStringRef().str();
  if (auto location = op->getLoc()->findInstanceOf<NameLoc>())
    name += " '" + location.getName().str() + "'";
  return name;
}

static void printReason(DictionaryAttr why, raw_ostream &out) {
  auto text = [&](StringRef name) {
    auto string = why.getAs<StringAttr>(name);
    return string ? string.getValue() : StringRef();
  };
  if (why.get("from"))
    out << "    " << text("producer") << " gives " << text("from") << ", "
        << text("user") << " takes " << text("to") << "\n";
  else if (why.get("user"))
    out << "    inside " << text("user") << "\n";
  if (!text("constraint").empty())
    out << "    because of " << text("constraint") << "\n";
}

static void printCollective(Operation *op, raw_ostream &out) {
  shard::LayoutAttr from = shard::getLayout(op->getOperand(0));
  auto movement = shard::getMovement(op->getName().stripDialect(), from,
                                     shard::getLayout(op->getResult(0)));
  int64_t executions = getExecutions(op);
  out << op->getName().stripDialect() << " over "
      << from.getMesh().toString(movement->axes) << " of "
      << op->getNumOperands()
      << (op->getNumOperands() == 1 ? " tensor, " : " tensors, ")
      << cost::CostModel::getBytes(op) << " bytes";
  if (executions != 1)
    out << ", " << executions << " times";
  out << "\n";
  auto why = op->getAttrOfType<DictionaryAttr>("why");
  if (!why)
    return;
  if (auto members = why.getAs<ArrayAttr>("members"))
    for (auto member : members.getAsRange<DictionaryAttr>())
      printReason(member, out);
  else
    printReason(why, out);
}

/// Products that repeat the same work on all devices of an axis.
static void printReplicated(func::FuncOp function, raw_ostream &out) {
  int64_t total = 0;
  function.walk([&](graph::GraphOp op) {
    total += op.getCost().flops * getExecutions(op);
  });
  constexpr double mentioned = 0.01;
  function.walk([&](graph::MatmulOp op) {
    shard::LayoutAttr layout = shard::getLayout(op.getResult());
    int64_t flops = cast<graph::GraphOp>(op.getOperation()).getCost().flops *
                    getExecutions(op);
    if (!layout || flops < mentioned * total)
      return;
    shard::MeshAttr mesh = layout.getMesh();
    SmallVector<shard::AxisRef> used;
    for (Value value : {op.getLhs(), op.getRhs(), op.getResult()})
      llvm::append_range(used, shard::getLayout(value).getUsedAxes());
    for (size_t i = 0; i < mesh.getAxisNames().size(); ++i) {
      shard::AxisRef axis = mesh.getAxis(i);
      if (axis.size > 1 && !shard::overlap(used, axis))
        out << nameOf(op) << " is replicated over " << mesh.toString(axis)
            << ": no constraint reaches it ("
            << static_cast<int64_t>(100.0 * flops / total)
            << "% of the step's FLOPs)\n";
    }
  });
}

void polyrank::sharding::printWhy(ModuleOp module, raw_ostream &out) {
  for (auto function : module.getOps<func::FuncOp>()) {
    out << "@" << function.getName() << "\n";
    function.walk([&](Operation *op) {
      if (isa<shard::AllGatherOp, shard::AllReduceOp, shard::ReduceScatterOp,
              shard::AllToAllOp, shard::PermuteOp, shard::HaloOp>(op))
        printCollective(op, out);
    });
    printReplicated(function, out);
  }
}

namespace {
struct PrintWhy : sharding::impl::PrintWhyBase<PrintWhy> {
  using PrintWhyBase::PrintWhyBase;
  void runOnOperation() override {
    printWhy(getOperation(), llvm::outs());
    markAllAnalysesPreserved();
  }
};
} // namespace
