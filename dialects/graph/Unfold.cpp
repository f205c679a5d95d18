// Sliding windows: unfold.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

void UnfoldOp::build(OpBuilder &builder, OperationState &state, Value input,
                     int64_t dim, int64_t size, int64_t stride,
                     int64_t dilation) {
  SmallVector<int64_t> shape(getShape(input));
  shape[dim] = getNumWindows(shape[dim], size, stride, dilation);
  shape.push_back(size);
  build(builder, state,
        RankedTensorType::get(
            shape, cast<RankedTensorType>(input.getType()).getElementType()),
        input, dim, size, stride, dilation);
}

LogicalResult UnfoldOp::verify() {
  SmallVector<int64_t> expected(getShape(getInput()));
  int64_t dim = getDim(), size = getSize(), stride = getStride(),
          dilation = getDilation();
  if (dim < 0 || dim >= static_cast<int64_t>(expected.size()))
    return emitOpError("unfolds dim ")
           << dim << " of an operand of rank " << expected.size();
  if (size < 1 || stride < 1 || dilation < 1)
    return emitOpError("has windows of ")
           << size << " elements, " << dilation << " apart, every " << stride
           << "; each of these is at least 1";
  expected[dim] = getNumWindows(expected[dim], size, stride, dilation);
  expected.push_back(size);
  if (getShape(getResult()) != ArrayRef<int64_t>(expected))
    return emitOpError("has a result of type ")
           << getResult().getType() << "; dim " << dim << " has "
           << expected[dim] << " windows of " << size << " elements";
  return success();
}

/// A window reaches into the next block, so blocks of the operand need borders.
/// All else is parallel.
ShardingRule UnfoldOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  int64_t unfolded = getDim();
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    if (static_cast<int64_t>(d) != unfolded) {
      if (size != 1)
        rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(size)};
      continue;
    }
    if (size != 1)
      rule.operands[0][d] = {rule.addFactor(size, FactorKind::Halo)};
    if (int64_t windows = getShape(getResult())[d]; windows != 1)
      rule.results[0][d] = {rule.addFactor(windows, FactorKind::Halo)};
  }
  if (int64_t size = getSize(); size != 1)
    rule.results[0].back() = {rule.addFactor(size, FactorKind::Replicated)};
  return rule;
}

LogicalResult UnfoldOp::evaluate(ArrayRef<Tensor> operands,
                                 MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> strides = getStrides(operands[0].shape);
  int64_t dim = getDim(), to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [d, i] : llvm::enumerate(index.drop_back()))
      from += (static_cast<int64_t>(d) == dim
                   ? i * static_cast<int64_t>(getStride()) +
                         index.back() * static_cast<int64_t>(getDilation())
                   : i) *
              strides[d];
    results[0].copy(to++, operands[0], from);
  });
  return success();
}

/// The sum over the window's elements of where each came from.
FailureOr<SmallVector<Value>> UnfoldOp::buildGradient(OpBuilder &builder,
                                                      ArrayRef<Value> gradients,
                                                      ArrayRef<bool>) {
  ArrayRef<int64_t> shape = getShape(getInput());
  int64_t dim = getDim(), last = shape.size(), stride = getStride();
  SmallVector<int64_t> part(getShape(getResult()).drop_back());
  Value sum;
  for (int64_t k = 0, size = getSize(); k < size; ++k) {
    Value element =
        SliceOp::create(builder, getLoc(), gradients[0], last, k, k + 1);
    element = ReshapeOp::create(builder, getLoc(), element, part);
    SmallVector<int64_t> low(last, 0), high(last, 0), interior(last, 0);
    int64_t reached = part[dim] ? (part[dim] - 1) * stride + 1 : 0;
    low[dim] = k * getDilation();
    high[dim] = shape[dim] - low[dim] - reached;
    interior[dim] = stride - 1;
    Value moved = PadOp::create(builder, getLoc(), element, low, high, interior,
                                /*value=*/0.0);
    sum = sum ? AddOp::create(builder, getLoc(), moved.getType(), sum, moved)
                    .getResult()
              : moved;
  }
  return SmallVector<Value>{sum};
}
