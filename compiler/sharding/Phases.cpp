// What of a step is forward, and what is backward.

#include "compiler/sharding/Phases.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

Phases::Phases(func::FuncOp step) { findCotangents(step.getBody().front()); }

void Phases::findCotangents(Block &block) {
  auto readsUpdate = [&](Operation &op) {
    return llvm::any_of(op.getOperands(), [&](Value operand) {
      return updates.contains(operand);
    });
  };
  for (Operation &op : block) {
    if (auto region = dyn_cast<graph::MicrobatchesOp>(op))
      findCotangents(region.getBody().front());
    else if (isa<graph::SeedOp>(op) || readsCotangent(&op))
      cotangents.insert(op.result_begin(), op.result_end());
    if (isa<graph::GradientOp>(op) || readsUpdate(op))
      updates.insert(op.result_begin(), op.result_end());
  }
}

bool Phases::isDerivative(Operation *op) const {
  return readsCotangent(op) && !op->hasTrait<OpTrait::IsTerminator>() &&
         !isa<graph::MicrobatchesOp, graph::GradientOp>(op) &&
         llvm::none_of(op->getOperands(), [&](Value operand) {
           return updates.contains(operand);
         });
}

bool Phases::readsCotangent(Operation *op) const {
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return isCotangent(operand); });
}

bool Phases::isBackward(Operation *op) {
  auto [it, isNew] = backward.try_emplace(op, true);
  if (!isNew)
    return it->second;
  bool result =
      !op->hasTrait<OpTrait::IsTerminator>() &&
      (readsCotangent(op) ||
       (!op->use_empty() && llvm::all_of(op->getUsers(), [&](Operation *user) {
         return isBackward(user);
       })));
  return backward[op] = result;
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
