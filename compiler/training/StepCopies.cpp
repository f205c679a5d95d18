// Parameters on stages that use but do not own them.
//
// In @forward insert-transfers sends such a parameter to the stage. In @step it
// is sent once, before the microbatches: each microbatch differentiates the
// copy as a separate value, and the sum of these gradients is sent back once,
// still partial over the batch axes.

#include "compiler/training/StepBuilder.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

void StepBuilder::sendParameters() {
  for (auto transfer : forward.getOps<pipeline::TransferOp>()) {
    auto sent = llvm::find_if(parameters, [&](const Parameter &parameter) {
      return parameter.forward == transfer.getInput() && parameter.update < 0;
    });
    if (sent == parameters.end())
      continue;
    IRMapping mapping;
    mapping.map(sent->forward, sent->step);
    auto copy = cast<pipeline::TransferOp>(builder.clone(*transfer, mapping));
    copies.push_back({transfer, copy, sent});
  }
}

bool StepBuilder::isSent(Operation *forwardOp) const {
  return llvm::any_of(copies, [&](const ParameterCopy &copy) {
    return copy.forward == forwardOp;
  });
}

void StepBuilder::returnGradients(ArrayRef<Value> ofCopies) {
  auto next = ofCopies.begin();
  for (ParameterCopy &copy : copies) {
    if (!copy.parameter->trainable)
      continue;
    Value gradient = *next++;
    if (!gradient)
      continue;
    int64_t owner = *copy.step.getFrom(), user = copy.step.getTo();
    auto back = pipeline::TransferOp::create(
        builder, copy.step.getLoc(), gradient.getType(), gradient,
        builder.getI64IntegerAttr(user), owner);
    Value &sum = copy.parameter->gradient;
    sum = sum ? parts.add(sum, back) : Value(back);
  }
}
