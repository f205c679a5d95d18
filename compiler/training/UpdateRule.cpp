// Options and helpers that all optimizers share.

#include "compiler/training/UpdateRule.h"

#include <cmath>

#include "dialects/graph/ParameterSymbols.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

Value polyrank::training::buildNumber(Parts &parts, double value) {
  return graph::splat(parts.builder, parts.location,
                      RankedTensorType::get({}, parts.builder.getF64Type()),
                      value);
}

SmallVector<std::string>
polyrank::training::getNames(graph::ParameterOp stored) {
  SmallVector<std::string> names{graph::nameOf(stored.getSymName()).str()};
  if (ArrayAttr aliases = stored.getAliasesAttr())
    for (auto alias : aliases.getAsRange<StringAttr>())
      names.push_back(alias.str());
  return names;
}

// A GlobPattern refers to its text, so it is created where it is used.
bool polyrank::training::matchesGlobs(ArrayRef<std::string> patterns,
                                      ArrayRef<std::string> names) {
  return llvm::any_of(patterns, [&](const std::string &pattern) {
    auto glob = llvm::cantFail(llvm::GlobPattern::create(pattern));
    return llvm::any_of(names,
                        [&](StringRef name) { return glob.match(name); });
  });
}

SmallVector<StringRef> UpdateRule::getOrder() const {
  SmallVector<StringRef> order{"lr"};
  llvm::append_range(order, getOwnOrder());
  return order;
}

void UpdateRule::takeOptions(NamedArguments &named) {
  takeRates(named);
  named.take("maximize", maximize);
}

void UpdateRule::takeRates(NamedArguments &named) {
  named.take("lr", learningRate);
  takeOwnOptions(named);
  named.take("weight_decay", weightDecay);
}

std::string UpdateRule::check() const {
  return !std::isfinite(learningRate) ? "lr must be finite"
         : learningRate < 0           ? "lr must not be negative"
         : weightDecay < 0            ? "weight_decay must not be negative"
                                      : checkOwn();
}

// 1 - rate * decay is computed in f64, like in PyTorch.
void UpdateRule::buildScalars(Parts &parts, Value step, Value learningRate) {
  rate = learningRate;
  keep = weightDecay == 0
             ? Value()
             : parts.sub(buildNumber(parts, 1), parts.mul(rate, weightDecay));
  buildOwnScalars(parts, step);
}

LogicalResult UpdateRule::buildUpdates(OpBuilder &builder,
                                       MutableArrayRef<UpdatedTensor> views,
                                       MutableArrayRef<Value> states) const {
  for (UpdatedTensor &tensor : views) {
    Parts parts(builder, tensor.location);
    if (maximize)
      tensor.gradient = parts.apply<graph::NegOp>(tensor.gradient);
  }
  return buildOwnUpdates(builder, views, states);
}

LogicalResult
ElementwiseRule::buildOwnUpdates(OpBuilder &builder,
                                 MutableArrayRef<UpdatedTensor> views,
                                 MutableArrayRef<Value> states) const {
  for (UpdatedTensor &tensor : views) {
    Parts parts(builder, tensor.location);
    tensor.parameter = buildUpdate(parts, tensor);
  }
  return success();
}

Value UpdateRule::countSteps(Parts &parts, Value step) {
  return parts.add(parts.convert(step, parts.builder.getF64Type()), 1);
}

Value UpdateRule::buildShare(Parts &parts, double beta, Value t) {
  return parts.sub(buildNumber(parts, 1),
                   parts.apply<graph::PowOp>(buildNumber(parts, beta), t));
}

Value UpdateRule::toDouble(Parts &parts, Value scalar) {
  Type type = parts.builder.getF64Type();
  return graph::getGlobalType(scalar).getElementType() == type
             ? scalar
             : parts.convert(scalar, type);
}

Value UpdateRule::scale(Parts &parts, Value x, Value scalar) {
  return parts.mul(x, parts.spread(scalar, x));
}

Value UpdateRule::addDecay(Parts &parts, const UpdatedTensor &tensor) const {
  double decay = getDecay(tensor);
  return decay == 0
             ? tensor.gradient
             : parts.add(tensor.gradient, parts.mul(tensor.parameter, decay));
}

Value UpdateRule::applyDecay(Parts &parts, const UpdatedTensor &tensor) const {
  return getDecay(tensor) == 0 ? tensor.parameter
                               : scale(parts, tensor.parameter, keep);
}
