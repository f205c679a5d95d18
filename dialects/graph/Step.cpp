// seed, dropout, microbatches.

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

// dropout

/// The first output word of Philox-4x32-10 (Salmon et al., SC 2011).
static uint32_t philox(uint64_t key64, std::array<uint32_t, 4> counter) {
  uint32_t key[2] = {static_cast<uint32_t>(key64),
                     static_cast<uint32_t>(key64 >> 32)};
  for (int round = 0; round < 10; ++round) {
    uint64_t left = uint64_t(0xD2511F53) * counter[0];
    uint64_t right = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(right >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(right),
               static_cast<uint32_t>(left >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(left)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter[0];
}

void DropoutOp::build(OpBuilder &builder, OperationState &state, Value input,
                      Value seed, Value step, Value microbatch, double rate,
                      int64_t rngId) {
  state.addOperands({input, seed, step, microbatch});
  auto &properties = state.getOrAddProperties<Properties>();
  properties.rate = builder.getF64FloatAttr(rate);
  properties.rng_id = builder.getI64IntegerAttr(rngId);
  addResultTypes(builder, state, getGlobalType(input));
}

ShardingRule DropoutOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  TensorFactors all = addFactors(rule, getShape(getInput()));
  rule.operands[0] = all;
  rule.results = {all};
  // Every device drops the same elements and scales the others up.
  for (shard::ReductionKind kind :
       {shard::ReductionKind::Sum, shard::ReductionKind::Max,
        shard::ReductionKind::Min})
    rule.setPass(kind, 0, PartialPass::Alone);
  return rule;
}

LogicalResult DropoutOp::verify() {
  if (getShape(getInput()) != getShape(getResult()))
    return emitOpError("result has another shape than the input");
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("rate is ") << rate << "; it must be in [0, 1)";
  for (auto [name, value] : {std::pair<StringRef, Value>{"seed", getSeed()},
                             {"step", getStep()},
                             {"microbatch", getMicrobatch()}})
    if (!getShape(value).empty())
      return emitOpError(name) << " must be a scalar";
  size_t rank = getShape(getInput()).size();
  size_t expected = getGlobalShape() ? rank : 0;
  if (getOffsets().size() != expected ||
      (getGlobalShape() && getGlobalShape()->size() != rank))
    return emitOpError("on one device offsets and global_shape have an entry "
                       "per dim, else there are none");
  return success();
}

LogicalResult DropoutOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  double rate = getRate().convertToDouble();
  double threshold = rate * 4294967296.0;
  uint64_t key = static_cast<uint64_t>(operands[1].integers[0]) ^
                 getRngId() * 0x9E3779B97F4A7C15u;
  auto step = static_cast<uint32_t>(operands[2].integers[0]);
  auto microbatch = static_cast<uint32_t>(operands[3].integers[0]);
  SmallVector<int64_t> strides =
      getStrides(getGlobalShape().value_or(operands[0].shape));
  int64_t base = 0;
  if (getGlobalShape())
    for (auto [offset, stride] :
         llvm::zip_equal(operands.drop_front(4), strides))
      base += offset.integers[0] * stride;
  int64_t i = 0;
  forEachIndex(operands[0].shape, [&](ArrayRef<int64_t> index) {
    uint64_t element = base;
    for (auto [position, stride] : llvm::zip_equal(index, strides))
      element += position * stride;
    uint32_t word =
        philox(key, {static_cast<uint32_t>(element),
                     static_cast<uint32_t>(element >> 32), step, microbatch});
    results[0].floats[i] =
        word >= threshold ? operands[0].floats[i] / (1 - rate) : 0;
    ++i;
  });
  return success();
}

LogicalResult DropoutOp::localize(LocalContext &context, ValueRange operands,
                                  SmallVectorImpl<Value> &results) {
  if (getGlobalShape())
    return emitOpError("is a block of one device already");
  ArrayRef<int64_t> localShape = getShape(operands[0]);
  shard::LayoutAttr layout = shard::getLayout(getInput());
  SmallVector<Value> all(operands);
  for (auto [dim, size] : llvm::enumerate(localShape)) {
    Value offset =
        layout ? context.blockOffset(getLoc(), layout, dim, size) : Value();
    if (!offset)
      offset =
          splat(context.builder, getLoc(),
                RankedTensorType::get({}, context.builder.getI64Type()), 0);
    all.push_back(offset);
  }
  auto local = DropoutOp::create(context.builder, getLoc(),
                                 TypeRange{operands[0].getType()}, all,
                                 (*this)->getAttrs());
  local.setGlobalShape(getShape(getInput()));
  results.push_back(local);
  return success();
}

FailureOr<SmallVector<Value>>
DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                         ArrayRef<bool> needed) {
  SmallVector<Value> gradients(getNumOperands());
  if (!needed[0])
    return gradients;
  SmallVector<Value> operands(getOperands());
  operands[0] = resultGradients[0];
  gradients[0] =
      DropoutOp::create(builder, getLoc(), TypeRange{getInput().getType()},
                        operands, (*this)->getAttrs());
  return gradients;
}

// microbatches

RankedTensorType MicrobatchesOp::getSliceType(RankedTensorType type) {
  auto slice = RankedTensorType::get(type.getShape().drop_front(),
                                     type.getElementType());
  shard::LayoutAttr layout = shard::getLayout(type);
  if (!layout)
    return slice;
  return shard::withLayout(
      slice,
      shard::LayoutAttr::get(layout.getMesh(), layout.getDims().drop_front(),
                             layout.getPartialKind(), layout.getPartialAxes(),
                             layout.getPlaces()));
}

LogicalResult MicrobatchesOp::verify() {
  // 1. Dim 0 of each `of` operand is `count` and not split.
  int64_t count = getCount();
  if (count < 1)
    return emitOpError("count is ") << count << "; it must be positive";
  for (auto [i, value] : llvm::enumerate(getOf())) {
    ArrayRef<int64_t> shape = getShape(value);
    if (shape.empty() || shape[0] != count)
      return emitOpError("'of' operand ")
             << i << " has dims [" << shape << "]; dim 0 must be the count, "
             << count;
    shard::LayoutAttr layout = shard::getLayout(value);
    if (layout && !layout.getDim(0).isWhole())
      return emitOpError("'of' operand ")
             << i << " is split on dim 0, which is the microbatch; split the "
             << "batch, dim 1";
  }

  // 2. Block arguments are the index, the slices, the carried values.
  SmallVector<Type> expected;
  Block &body = getBody().front();
  auto index = RankedTensorType::get({}, IntegerType::get(getContext(), 64));
  if (body.getNumArguments() > 0)
    if (auto layout = shard::getLayout(body.getArgument(0)))
      index = shard::withLayout(
          index, shard::LayoutAttr::getReplicated(layout.getMesh(), 0));
  expected.push_back(index);
  for (Value value : getOf())
    expected.push_back(getSliceType(cast<RankedTensorType>(value.getType())));
  llvm::append_range(expected, getCarry().getTypes());
  if (body.getArgumentTypes() != TypeRange(expected))
    return emitOpError("the region's arguments must be the index, one "
                       "microbatch of each 'of' operand, and the carried "
                       "values: ")
           << expected << ", not "
           << SmallVector<Type>(body.getArgumentTypes());

  // 3. The terminator yields the results: sums, then carried values.
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError("the region must end in graph.yield");
  if (yield.getCarry().size() != getCarry().size())
    return emitOpError("carries ") << getCarry().size() << " values in and "
                                   << yield.getCarry().size() << " out";
  if (yield.getCarry().getTypes() != getCarry().getTypes())
    return emitOpError("a carried value must keep its type");
  if (yield->getOperandTypes() != getResultTypes())
    return emitOpError("the types of the results must be those that "
                       "graph.yield has: ")
           << SmallVector<Type>(yield->getOperandTypes()) << ", not "
           << SmallVector<Type>(getResultTypes());
  return success();
}
