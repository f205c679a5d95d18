// seed, after, microbatches.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

// seed

ShardingRule SeedOp::getShardingRule() { return emptyRule(*this); }

LogicalResult SeedOp::evaluate(ArrayRef<Tensor> operands,
                               MutableArrayRef<Tensor> results) {
  for (double &value : results[0].floats)
    value = getValue().convertToDouble();
  return success();
}

// after

LogicalResult AfterOp::verify() {
  if (getResult().getType() != getInput().getType())
    return emitOpError("[1] makes ")
           << getResult().getType() << " of " << getInput().getType();
  sharding::LayoutAttr layout = sharding::getLayout(getInput()),
                       token = sharding::getLayout(getToken());
  if (!layout != !token || (layout && layout.getMesh() != token.getMesh()))
    return emitOpError("[2] ")
           << getInput().getType() << " waits for " << getToken().getType()
           << "; both are laid out over one mesh, or none";
  return success();
}

ShardingRule AfterOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  for (auto [d, size] : llvm::enumerate(getShape(getInput())))
    if (size != 1)
      rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(size)};
  return rule;
}

LogicalResult AfterOp::evaluate(ArrayRef<Tensor> operands,
                                MutableArrayRef<Tensor> results) {
  results[0] = operands[0];
  return success();
}

LogicalResult AfterOp::localize(LocalContext &, ValueRange operands,
                                SmallVectorImpl<Value> &results) {
  results.push_back(operands[0]);
  return success();
}

Cost AfterOp::getCost() { return {}; }

// microbatches

RankedTensorType MicrobatchesOp::getSliceType(RankedTensorType type) {
  auto slice = RankedTensorType::get(type.getShape().drop_front(),
                                     type.getElementType());
  sharding::LayoutAttr layout = sharding::getLayout(type);
  if (!layout)
    return slice;
  return sharding::withLayout(
      slice,
      sharding::LayoutAttr::get(layout.getMesh(), layout.getDims().drop_front(),
                                layout.getPartialKind(),
                                layout.getPartialAxes(), layout.getPlaces()));
}

LogicalResult MicrobatchesOp::verify() {
  // 1. Dim 0 of each `of` operand is `count` and not split.
  int64_t count = getCount();
  if (count < 1)
    return emitOpError("[1] count is ") << count << "; it must be positive";
  for (auto [i, value] : llvm::enumerate(getOf())) {
    ArrayRef<int64_t> shape = getShape(value);
    if (shape.empty() || shape[0] != count)
      return emitOpError("[1] 'of' operand ")
             << i << " has dims [" << shape << "]; dim 0 must be the count, "
             << count;
    sharding::LayoutAttr layout = sharding::getLayout(value);
    if (layout && !layout.getDim(0).isWhole())
      return emitOpError("[1] 'of' operand ")
             << i << " is split on dim 0, which is the microbatch; split the "
             << "batch, dim 1";
  }

  // 2. Block arguments are the index, the slices, the carried values.
  SmallVector<Type> expected;
  Block &body = getBody().front();
  auto index = RankedTensorType::get({}, IntegerType::get(getContext(), 64));
  if (body.getNumArguments() > 0)
    if (auto layout = sharding::getLayout(body.getArgument(0)))
      index = sharding::withLayout(
          index, sharding::LayoutAttr::getReplicated(layout.getMesh(), 0));
  expected.push_back(index);
  for (Value value : getOf())
    expected.push_back(getSliceType(cast<RankedTensorType>(value.getType())));
  llvm::append_range(expected, getCarry().getTypes());
  if (body.getArgumentTypes() != TypeRange(expected))
    return emitOpError("[2] the region's arguments must be the index, one "
                       "microbatch of each 'of' operand, and the carried "
                       "values: ")
           << expected << ", not "
           << SmallVector<Type>(body.getArgumentTypes());

  // 3. The terminator yields the results: sums, then carried values.
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError("[3] the region must end in graph.yield");
  if (yield.getCarry().size() != getCarry().size())
    return emitOpError("[3] carries ") << getCarry().size() << " values in and "
                                       << yield.getCarry().size() << " out";
  if (yield.getCarry().getTypes() != getCarry().getTypes())
    return emitOpError("[3] a carried value must keep its type");
  if (yield->getOperandTypes() != getResultTypes())
    return emitOpError("[3] the types of the results must be those that "
                       "graph.yield has: ")
           << SmallVector<Type>(yield->getOperandTypes()) << ", not "
           << SmallVector<Type>(getResultTypes());
  return success();
}
