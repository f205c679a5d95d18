// Warns about a model that is trained to repeat its input.

#include "compiler/training/LossBuilder.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// The ops on paths from `from` to `to`; empty if `to` does not depend on
/// `from`.
static llvm::SetVector<Operation *> opsBetween(Value from, Value to) {
  DenseSet<Value> dependent{from};
  for (Operation &op : *from.getParentBlock())
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return dependent.contains(value); }))
      dependent.insert(op.result_begin(), op.result_end());
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> work{to};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (op && dependent.contains(value) && ops.insert(op))
      llvm::append_range(work, op->getOperands());
  }
  return ops;
}

/// Returns true if `op` shifts its operand along a dim of this size: it drops a
/// part, puts elements before or after it, or picks by an index.
static bool shifts(Operation *op, int64_t size,
                   const llvm::SetVector<Operation *> &all) {
  if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    Value table = gather.getOperand();
    return all.contains(table.getDefiningOp()) &&
           graph::getShape(table)[gather.getAxis()] == size;
  }
  if (!isa<graph::SliceOp, graph::ConcatOp, graph::PadOp>(op))
    return false;
  ArrayRef<int64_t> to = graph::getShape(op->getResult(0));
  for (Value operand : op->getOperands())
    for (auto [before, after] : llvm::zip(graph::getShape(operand), to))
      if (before != after && (before == size || after == size))
        return true;
  return false;
}

void LossBuilder::warnOfCopies(const Call &call, Value output, Value labels) {
  llvm::SetVector<Operation *> ops = opsBetween(labels, output);
  ArrayRef<int64_t> shape = graph::getShape(labels);
  // The model may shift its labels itself, like an encoder-decoder.
  if (ops.empty() || (shape.size() > 1 && llvm::any_of(ops, [&](Operation *op) {
                        return shifts(op, shape.back(), ops);
                      })))
    return;
  const std::string &name = call.positional[1];
  if (!copied.insert(call.positional[0] + "," + name).second)
    return;
  forward.emitWarning()
      << (isMetric ? "--metric: " : "--loss: ") << "the labels '" << name
      << "' are an input that '" << call.positional[0]
      << "' is computed from, so the model "
      << (isMetric ? "is measured by how it repeats" : "learns to repeat")
      << " its input; labels of their own, " << call.name << "("
      << call.positional[0] << ",labels), become a further input"
      << (shape.size() > 1 ? ", to which a language model's next tokens go"
                           : "");
}
