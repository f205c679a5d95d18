// What all optimizers have in common.

#include "compiler/training/UpdateRule.h"

#include <cmath>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

Value polyrank::training::buildNumber(Parts &parts, double value) {
  return graph::splat(parts.builder, parts.location,
                      RankedTensorType::get({}, parts.builder.getF64Type()),
                      value);
}

SmallVector<StringRef> UpdateRule::getOrder() const {
  SmallVector<StringRef> order{"lr"};
  llvm::append_range(order, getOwnOrder());
  return order;
}

void UpdateRule::takeOptions(NamedArguments &named) {
  named.take("lr", learningRate);
  takeOwnOptions(named);
  named.take("weight_decay", weightDecay);
  named.take("maximize", maximize);
}

StringRef UpdateRule::check() const {
  return !std::isfinite(learningRate) ? "lr must be finite"
         : learningRate < 0 ? "lr must not be negative"
         : weightDecay < 0 ? "weight_decay must not be negative"
                           : checkOwn();
}

// 1 - rate * decay in f64, as PyTorch computes it.
void UpdateRule::buildScalars(Parts &parts, Value step, Value learningRate) {
  rate = learningRate;
  keep = weightDecay == 0
             ? Value()
             : parts.sub(buildNumber(parts, 1), parts.mul(rate, weightDecay));
  buildOwnScalars(parts, step);
}

void UpdateRule::buildUpdates(OpBuilder &builder,
                              MutableArrayRef<UpdatedTensor> views) const {
  for (UpdatedTensor &tensor : views) {
    if (!tensor.gradient)
      continue;
    Parts parts(builder, tensor.location);
    if (maximize)
      tensor.gradient = parts.apply<graph::NegOp>(tensor.gradient);
    tensor.parameter = buildUpdate(parts, tensor);
  }
}

Value UpdateRule::scale(Parts &parts, Value x, Value scalar) {
  return parts.mul(x, parts.spread(scalar, x));
}

Value UpdateRule::addDecay(Parts &parts, const UpdatedTensor &tensor) const {
  double decay = getDecay(tensor);
  return decay == 0 ? tensor.gradient
                    : parts.add(tensor.gradient,
                                parts.mul(tensor.parameter, decay));
}

Value UpdateRule::applyDecay(Parts &parts, const UpdatedTensor &tensor) const {
  return getDecay(tensor) == 0 ? tensor.parameter
                               : scale(parts, tensor.parameter, keep);
}
