// Finds the values of a step that are parts of the gradients of parameters.

#include "compiler/training/ParameterGradients.h"

#include "dialects/pipeline/Pipeline.h"

using namespace mlir;
using namespace polyrank;

/// The values whose sum, with elements moved or left out, is `value`; none if
/// it is computed otherwise.
static SmallVector<Value> getSummands(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  unsigned number = cast<OpResult>(value).getResultNumber();
  if (auto region = dyn_cast<graph::MicrobatchesOp>(op))
    return {region.getBody().front().getTerminator()->getOperand(number)};
  if (auto scan = dyn_cast<graph::ScanOp>(op))
    return {scan.getYield()->getOperand(number)};
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  bool isOfSummands =
      isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::PadOp,
          graph::ConcatOp, graph::AddOp, graph::BroadcastOp,
          pipeline::TransferOp>(op) ||
      (reduce && reduce.getKind() == sharding::ReductionKind::Sum);
  return isOfSummands ? SmallVector<Value>(op->getOperands())
                      : SmallVector<Value>();
}

llvm::DenseSet<Value> polyrank::training::findParameterGradients(Block &step) {
  llvm::DenseSet<Value> found;
  SmallVector<Value> open;
  for (auto gradient : step.getOps<graph::GradientOp>())
    open.push_back(gradient.getInput());
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (found.insert(value).second)
      open.append(getSummands(value));
  }
  return found;
}
