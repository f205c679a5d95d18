// The phase of an op in a training step.

#include "dialects/graph/Phase.h"

#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

Phases::Phases(FunctionOpInterface step) : step(step) {
  Block &body = step.getFunctionBody().front();
  readOperands(body);
  readUsers(body);
}

bool Phases::readsCotangent(Operation *op) const {
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return isCotangent(operand); });
}

/// Finds, in program order, what depends on a seed, a gradient or a marked op.
void Phases::readOperands(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto region = dyn_cast<MicrobatchesOp>(op)) {
      Block &body = region.getBody().front();
      readOperands(body);
      for (auto [result, yielded] : llvm::zip_equal(
               region.getResults(), body.getTerminator()->getOperands())) {
        reached[result] = reached.lookup(yielded);
        if (isCotangent(yielded))
          cotangents.insert(result);
      }
      continue;
    }
    Phase phase = getMarkedPhase(&op).value_or(Phase::Forward);
    if (isa<SeedOp>(op) || readsCotangent(&op)) {
      cotangents.insert(op.result_begin(), op.result_end());
      phase = std::max(phase, Phase::Backward);
    }
    if (isa<GradientOp>(op))
      phase = Phase::Update;
    for (Value operand : op.getOperands())
      phase = std::max(phase, reached.lookup(operand));
    for (Value result : op.getResults())
      reached[result] = phase;
    phases[&op] = phase;
  }
}

/// The next value of the optimizer's state is in the update.
Phase Phases::getPhaseOfUse(OpOperand &use) const {
  Operation *user = use.getOwner();
  Boundary boundary(step);
  if (user->getParentOp() != step || !user->hasTrait<OpTrait::IsTerminator>())
    return getPhase(user);
  std::optional<unsigned> argument =
      boundary.getReplaced(use.getOperandNumber());
  return argument && boundary.getArgument<StateAttr>(*argument)
             ? Phase::Update
             : Phase::Forward;
}

/// Finds, from the last op on, what is computed for later phases alone.
void Phases::readUsers(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (auto region = dyn_cast<MicrobatchesOp>(op)) {
      readUsers(region.getBody().front());
      continue;
    }
    Phase &phase = phases[&op];
    // A stage's backward comes after the backwards of later stages, which may
    // wait for what this stage sends.
    auto transfer = dyn_cast<pipeline::TransferOp>(op);
    bool isSentAhead =
        transfer && transfer.getFrom().value_or(0) < transfer.getTo();
    if (phase != Phase::Forward || getMarkedPhase(&op) || op.use_empty() ||
        isSentAhead)
      continue;
    phase = Phase::Update;
    for (OpOperand &use : op.getUses())
      phase = std::min(phase, getPhaseOfUse(use));
  }
}

Value Phases::findToken(Operation *op) const {
  for (Value operand : op->getOperands())
    if (isCotangent(operand))
      return operand;
  while ((op = op->getPrevNode()))
    if (op->getNumResults() && isCotangent(op->getResult(0)))
      return op->getResult(0);
  return {};
}

void graph::markPhases(FunctionOpInterface step) {
  Phases phases(step);
  step->walk([&](Operation *op) {
    if (Phase phase = phases.getPhase(op); phase != Phase::Forward)
      markPhase(op, phase);
  });
}
