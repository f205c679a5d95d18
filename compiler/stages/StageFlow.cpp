// Finds the stage of each value of a function.

#include "compiler/stages/StageFlow.h"

#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;

std::optional<int64_t>
StageFlow::getStageOfArgument(FunctionOpInterface function, unsigned number,
                              const graph::Symbols &symbols) {
  FlatSymbolRefAttr symbol = graph::Boundary(function).getParameter(number);
  auto parameter = symbol ? symbols.lookup<graph::ParameterOp>(symbol)
                          : graph::ParameterOp();
  return parameter ? graph::getStage(parameter) : std::nullopt;
}

StageFlow::StageFlow(FunctionOpInterface function) {
  Block &body = function.getFunctionBody().front();
  graph::Symbols symbols(function);
  for (BlockArgument argument : body.getArguments())
    set(argument,
        getStageOfArgument(function, argument.getArgNumber(), symbols));
  visit(body);
}

void StageFlow::visit(Block &block) {
  for (Operation &op : block.without_terminator())
    update(&op);
}

void StageFlow::update(Operation *op) {
  if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op))
    return visit(microbatches);
  for (Value result : op->getResults())
    set(result, getStage(op));
}

void StageFlow::visit(graph::MicrobatchesOp op) {
  for (auto [slice, value] : llvm::zip_equal(op.getSlices(), op.getOf()))
    set(slice, getStage(value));
  for (auto [carried, value] : llvm::zip_equal(op.getCarried(), op.getCarry()))
    set(carried, getStage(value));
  Block &body = op.getBody().front();
  visit(body);
  for (auto [result, yielded] :
       llvm::zip_equal(op.getResults(), body.getTerminator()->getOperands()))
    set(result, getStage(yielded));
}

std::optional<int64_t> StageFlow::getStage(Operation *op) const {
  if (auto transfer = dyn_cast<pipeline::TransferOp>(op))
    return transfer.getTo();
  if (isa<pipeline::JoinOp>(op))
    return std::nullopt;
  // The token is not read.
  if (auto after = dyn_cast<graph::AfterOp>(op))
    return getStage(after.getInput());
  for (Value operand : op->getOperands())
    if (auto stage = getStage(operand))
      return stage;
  return std::nullopt;
}

std::optional<std::pair<Value, Value>>
StageFlow::findConflict(Operation *op) const {
  if (isa<pipeline::TransferOp, pipeline::JoinOp, graph::AfterOp,
          graph::MicrobatchesOp>(op) ||
      op->hasTrait<OpTrait::IsTerminator>())
    return std::nullopt;
  Value first;
  for (Value operand : op->getOperands()) {
    if (!getStage(operand))
      continue;
    if (first && getStage(first) != getStage(operand))
      return std::pair(first, operand);
    first = operand;
  }
  return std::nullopt;
}

LogicalResult stages::verifyStages(FunctionOpInterface function) {
  StageFlow flow(function);
  WalkResult result = function->walk([&](Operation *op) {
    if (op == function)
      return WalkResult::advance();
    if (auto conflict = flow.findConflict(op)) {
      op->emitError("reads values of stage ")
          << *flow.getStage(conflict->first) << " and of stage "
          << *flow.getStage(conflict->second)
          << "; only pipeline ops take a value to another stage";
      return WalkResult::interrupt();
    }
    if (auto transfer = dyn_cast<pipeline::TransferOp>(op)) {
      // A value that has become a constant is on all stages.
      std::optional<int64_t> stage = flow.getStage(transfer.getInput());
      if (stage && transfer.getFrom() != stage) {
        op->emitError("takes a value of stage ")
            << *stage << " from "
            << (transfer.getFrom() ? "stage " + Twine(*transfer.getFrom())
                                   : Twine("all stages"));
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
