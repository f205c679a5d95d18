// silu and silu_grad.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

ShardingRule SiluOp::getShardingRule() { return elementwiseRule(*this); }

LogicalResult SiluOp::verify() { return verifySameShapes(*this); }

LogicalResult SiluOp::evaluate(ArrayRef<Tensor> operands,
                               MutableArrayRef<Tensor> results) {
  for (auto [y, x] : llvm::zip_equal(results[0].floats, operands[0].floats))
    y = x * sigmoid(x);
  return success();
}

FailureOr<SmallVector<Value>>
SiluOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                      ArrayRef<bool> needed) {
  if (!needed[0])
    return SmallVector<Value>{Value()};
  return SmallVector<Value>{SiluGradOp::create(
      builder, getLoc(), getInput().getType(), resultGradients[0], getInput())};
}

SmallVector<Value> SiluOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  return {parts.mul(getInput(), parts.apply<SigmoidOp>(getInput()))};
}

ShardingRule SiluGradOp::getShardingRule() {
  ShardingRule rule = elementwiseRule(*this);
  rule.setPass(sharding::ReductionKind::Sum, 0, PartialPass::Alone);
  return rule;
}

LogicalResult SiluGradOp::verify() { return verifySameShapes(*this); }

LogicalResult SiluGradOp::evaluate(ArrayRef<Tensor> operands,
                                   MutableArrayRef<Tensor> results) {
  for (auto [dx, dy, x] : llvm::zip_equal(results[0].floats, operands[0].floats,
                                          operands[1].floats))
    dx = dy * sigmoid(x) * (1 + x * (1 - sigmoid(x)));
  return success();
}

SmallVector<Value> SiluGradOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value x = getInput(), s = parts.apply<SigmoidOp>(x);
  Value rest = parts.mul(x, parts.sub(parts.splat(s, 1), s));
  return {parts.mul(getResultGradient(), parts.mul(s, parts.add(rest, 1)))};
}
