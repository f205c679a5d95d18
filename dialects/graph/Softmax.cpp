// softmax and softmax_grad.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

/// The rule: rows are parallel; `dim` needs its other blocks.
static ShardingRule rowRule(Operation *op, int64_t dim) {
  ShardingRule rule = elementwiseRule(op);
  for (int factor : rule.results[0][dim])
    rule.factors[factor].kind = FactorKind::Composite;
  return rule;
}

static LogicalResult verifyDim(Operation *op, int64_t dim) {
  if (failed(verifySameShapes(op)))
    return failure();
  int64_t rank = getShape(op->getResult(0)).size();
  if (dim < 0 || dim >= rank)
    return op->emitOpError("[3] dim is ")
           << dim << " for tensors of rank " << rank;
  return success();
}

/// Calls `row(first, count, step)` for each row along `dim`.
static void forEachRow(ArrayRef<int64_t> shape, int64_t dim,
                       function_ref<void(int64_t, int64_t, int64_t)> row) {
  int64_t step = numElements(shape.drop_front(dim + 1));
  int64_t count = shape[dim];
  for (int64_t outer = 0, n = numElements(shape.take_front(dim)); outer < n;
       ++outer)
    for (int64_t inner = 0; inner < step; ++inner)
      row(outer * count * step + inner, count, step);
}

ShardingRule SoftmaxOp::getShardingRule() { return rowRule(*this, getDim()); }

LogicalResult SoftmaxOp::verify() { return verifyDim(*this, getDim()); }

LogicalResult SoftmaxOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  const auto &x = operands[0].floats;
  auto &y = results[0].floats;
  forEachRow(results[0].shape, getDim(),
             [&](int64_t first, int64_t count, int64_t step) {
               double largest = -INFINITY, total = 0;
               for (int64_t i = 0; i < count; ++i)
                 largest = maximum(largest, x[first + i * step]);
               for (int64_t i = 0; i < count; ++i)
                 total += y[first + i * step] =
                     std::exp(x[first + i * step] - largest);
               for (int64_t i = 0; i < count; ++i)
                 y[first + i * step] /= total;
             });
  return success();
}

FailureOr<SmallVector<Value>>
SoftmaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                         ArrayRef<bool> needed) {
  if (!needed[0])
    return SmallVector<Value>{Value()};
  return SmallVector<Value>{
      SoftmaxGradOp::create(builder, getLoc(), getInput().getType(),
                            resultGradients[0], getResult(), getDim())};
}

SmallVector<Value> SoftmaxOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  ArrayRef<int64_t> shape = getShape(getInput());
  int64_t dim = getDim();
  Value largest = parts.reduce(ReductionKind::Max, getInput(), dim);
  Value powers =
      parts.exp(parts.sub(getInput(), parts.broadcast(largest, shape, dim)));
  Value total = parts.sum(powers, dim);
  return {parts.div(powers, parts.broadcast(total, shape, dim))};
}

ShardingRule SoftmaxGradOp::getShardingRule() {
  ShardingRule rule = rowRule(*this, getDim());
  rule.setPass(ReductionKind::Sum, 0, PartialPass::Alone);
  return rule;
}

LogicalResult SoftmaxGradOp::verify() { return verifyDim(*this, getDim()); }

LogicalResult SoftmaxGradOp::evaluate(ArrayRef<Tensor> operands,
                                      MutableArrayRef<Tensor> results) {
  const auto &dy = operands[0].floats, &y = operands[1].floats;
  auto &dx = results[0].floats;
  forEachRow(results[0].shape, getDim(),
             [&](int64_t first, int64_t count, int64_t step) {
               double dot = 0;
               for (int64_t i = 0; i < count; ++i)
                 dot += y[first + i * step] * dy[first + i * step];
               for (int64_t i = 0; i < count; ++i)
                 dx[first + i * step] =
                     y[first + i * step] * (dy[first + i * step] - dot);
             });
  return success();
}

SmallVector<Value> SoftmaxGradOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value dy = getResultGradient(), y = getResultValue();
  Value dot = parts.sum(parts.mul(y, dy), getDim());
  return {
      parts.mul(y, parts.sub(dy, parts.broadcast(dot, getShape(y), getDim())))};
}
