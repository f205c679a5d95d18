// insert-transfers: inserts transfers of the values that go from one stage to
// another.

#include "compiler/stages/Passes.h"
#include "compiler/stages/StageFlow.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Forward.h"
#include "dialects/graph/Provenance.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;

namespace polyrank::stages {
#define GEN_PASS_DEF_INSERTTRANSFERS
#include "compiler/stages/Passes.h.inc"
} // namespace polyrank::stages

namespace {
class Inserter {
public:
  Inserter(ModuleOp module, func::FuncOp forward)
      : module(module), forward(forward), boundary(forward),
        body(forward.getBody().front()), symbols(forward) {}

  LogicalResult run();

private:
  void placeParameters();
  std::optional<int64_t> getStage(Value value);
  Value bring(Value value, int64_t stage);
  void bringResults();

  ModuleOp module;
  func::FuncOp forward;
  graph::Boundary boundary;
  Block &body;
  graph::Symbols symbols;
  DenseMap<std::pair<Value, int64_t>, Value> brought;
};
} // namespace

/// A parameter is on the first stage that uses it. A parameter that nothing
/// uses stays as it is and is on stage 0.
void Inserter::placeParameters() {
  llvm::MapVector<Attribute, int64_t> owners;
  for (BlockArgument argument : body.getArguments()) {
    FlatSymbolRefAttr symbol = boundary.getParameter(argument.getArgNumber());
    if (!symbol)
      continue;
    for (Operation *user : argument.getUsers())
      if (std::optional<int64_t> stage = graph::getStage(user)) {
        auto [owner, isNew] = owners.try_emplace(symbol, *stage);
        owner->second = std::min(owner->second, *stage);
      }
  }
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    auto owner = owners.find(FlatSymbolRefAttr::get(parameter));
    graph::setStage(parameter, owner == owners.end() ? 0 : owner->second);
  }
}

std::optional<int64_t> Inserter::getStage(Value value) {
  if (Operation *producer = value.getDefiningOp())
    return isa<pipeline::TransferOp>(producer)
               ? std::optional<int64_t>(
                     cast<pipeline::TransferOp>(producer).getTo())
               : graph::getStage(producer);
  return StageFlow::getStageOfArgument(
      forward, cast<BlockArgument>(value).getArgNumber(), symbols);
}

/// Returns `value` on `stage`. It is sent once, as soon as it is computed,
/// however many ops need it.
Value Inserter::bring(Value value, int64_t stage) {
  std::optional<int64_t> from = getStage(value);
  if (from == stage)
    return value;
  Value &result = brought[{value, stage}];
  if (!result) {
    OpBuilder builder(module.getContext());
    builder.setInsertionPointAfterValue(value);
    auto transfer = pipeline::TransferOp::create(
        builder, value.getLoc(), value.getType(), value,
        from ? builder.getI64IntegerAttr(*from) : IntegerAttr(), stage);
    if (Operation *producer = value.getDefiningOp())
      graph::setScope(transfer,
                      producer->getAttrOfType<StringAttr>("graph.scope"));
    result = transfer;
  }
  return result;
}

/// The next value of a parameter goes to the stage of the parameter. The count
/// of a mean is computed on the stage of its sum, so that no other stage reads
/// the labels.
void Inserter::bringResults() {
  Operation *terminator = body.getTerminator();
  for (OpOperand &slot : terminator->getOpOperands()) {
    unsigned number = slot.getOperandNumber();
    std::optional<int64_t> stage;
    if (auto replaced = boundary.getReplaced(number))
      stage = StageFlow::getStageOfArgument(forward, *replaced, symbols);
    else if (boundary.getResult<graph::CountAttr>(number) && number > 0 &&
             !slot.get().getDefiningOp<graph::ConstantOp>())
      stage = getStage(terminator->getOperand(number - 1));
    if (stage)
      slot.set(bring(slot.get(), *stage));
  }
}

LogicalResult Inserter::run() {
  placeParameters();
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    std::optional<int64_t> stage = graph::getStage(&op);
    for (OpOperand &slot : op.getOpOperands()) {
      std::optional<int64_t> from = getStage(slot.get());
      if (!from || from == stage)
        continue;
      if (!stage)
        return op.emitError("is on no stage, but reads a value of stage ")
               << *from << ": assign-stages comes first";
      slot.set(bring(slot.get(), *stage));
    }
  }
  bringResults();
  // From here on stages follow from the data flow.
  for (Operation &op : body)
    graph::setStage(&op, std::nullopt);
  return verifyStages(forward);
}

namespace {
struct InsertTransfers : stages::impl::InsertTransfersBase<InsertTransfers> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<func::FuncOp> forward = graph::getForward(module);
    if (failed(forward))
      return signalPassFailure();
    if (!pipeline::getStages(module)) {
      module.emitError("has no stages: assign-stages comes first");
      return signalPassFailure();
    }
    if (failed(Inserter(module, *forward).run()))
      signalPassFailure();
  }
};
} // namespace
