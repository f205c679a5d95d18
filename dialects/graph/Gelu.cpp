// gelu and gelu_grad.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

// With u = sqrt(2/pi) (x + c x^3), the tanh form is x/2 (1 + tanh u).
static constexpr double cubic = 0.044715;
static constexpr double rootTwoOverPi = 0.79788456080286535588;
static constexpr double rootHalf = 0.70710678118654752440;
static constexpr double inverseRootTwoPi = 0.39894228040143267794;

static double gelu(double x, GeluForm form) {
  if (form == GeluForm::Erf)
    return 0.5 * x * (1 + std::erf(x * rootHalf));
  return 0.5 * x * (1 + std::tanh(rootTwoOverPi * (x + cubic * x * x * x)));
}

static double geluDerivative(double x, GeluForm form) {
  if (form == GeluForm::Erf)
    return 0.5 * (1 + std::erf(x * rootHalf)) +
           x * inverseRootTwoPi * std::exp(-0.5 * x * x);
  double t = std::tanh(rootTwoOverPi * (x + cubic * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * rootTwoOverPi * (1 + 3 * cubic * x * x);
}

/// tanh(u) or erf(x / sqrt 2), by form.
static Value buildSigmoid(Parts &parts, Value x, GeluForm form) {
  if (form == GeluForm::Erf)
    return parts.apply<ErfOp>(parts.mul(x, rootHalf));
  Value inner = parts.add(parts.mul(parts.mul(x, x), cubic), 1);
  return parts.apply<TanhOp>(parts.mul(parts.mul(x, inner), rootTwoOverPi));
}

ShardingRule GeluOp::getShardingRule() { return elementwiseRule(*this); }

LogicalResult GeluOp::verify() { return verifySameShapes(*this); }

LogicalResult GeluOp::evaluate(ArrayRef<Tensor> operands,
                               MutableArrayRef<Tensor> results) {
  for (auto [y, x] : llvm::zip_equal(results[0].floats, operands[0].floats))
    y = gelu(x, getForm());
  return success();
}

FailureOr<SmallVector<Value>>
GeluOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                      ArrayRef<bool> needed) {
  if (!needed[0])
    return SmallVector<Value>{Value()};
  return SmallVector<Value>{
      GeluGradOp::create(builder, getLoc(), getInput().getType(),
                         resultGradients[0], getInput(), getForm())};
}

SmallVector<Value> GeluOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value x = getInput();
  Value t = buildSigmoid(parts, x, getForm());
  return {parts.mul(parts.mul(x, 0.5), parts.add(t, 1))};
}

ShardingRule GeluGradOp::getShardingRule() {
  ShardingRule rule = elementwiseRule(*this);
  rule.setPass(sharding::ReductionKind::Sum, 0, PartialPass::Alone);
  return rule;
}

LogicalResult GeluGradOp::verify() { return verifySameShapes(*this); }

LogicalResult GeluGradOp::evaluate(ArrayRef<Tensor> operands,
                                   MutableArrayRef<Tensor> results) {
  for (auto [dx, dy, x] : llvm::zip_equal(results[0].floats, operands[0].floats,
                                          operands[1].floats))
    dx = dy * geluDerivative(x, getForm());
  return success();
}

SmallVector<Value> GeluGradOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value x = getInput(), square = parts.mul(x, x);
  Value t = buildSigmoid(parts, x, getForm());
  Value slope;
  if (getForm() == GeluForm::Erf) {
    slope = parts.mul(parts.exp(parts.mul(square, -0.5)), inverseRootTwoPi);
  } else {
    Value inner = parts.add(parts.mul(square, 3 * cubic), 1);
    Value rest = parts.sub(parts.splat(t, 1), parts.mul(t, t));
    slope = parts.mul(parts.mul(rest, inner), 0.5 * rootTwoOverPi);
  }
  Value derivative =
      parts.add(parts.mul(parts.add(t, 1), 0.5), parts.mul(x, slope));
  return {parts.mul(getResultGradient(), derivative)};
}
