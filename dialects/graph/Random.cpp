// dropout, uniform: ops that draw random numbers.

#include "dialects/graph/Random.h"

#include "dialects/graph/Parts.h"
#include "support/Philox.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

uint32_t graph::getRandomWord(uint64_t id, uint64_t element, uint64_t seed,
                              uint64_t step, uint64_t microbatch) {
  return randomWord(id, element, seed, step, microbatch);
}

/// Verifies the operands on which the numbers of a tensor of `shape` depend.
template <typename Op>
static LogicalResult verifyRandom(Op op, ArrayRef<int64_t> shape) {
  for (auto [name, value] : {std::pair<StringRef, Value>{"seed", op.getSeed()},
                             {"step", op.getStep()},
                             {"microbatch", op.getMicrobatch()}})
    if (!getShape(value).empty())
      return op.emitOpError("[1] ") << name << " must be a scalar";
  size_t expected = op.getGlobalShape() ? shape.size() : 0;
  if (op.getOffsets().size() != expected ||
      (op.getGlobalShape() && op.getGlobalShape()->size() != shape.size()))
    return op.emitOpError("[2] on one device offsets and global_shape have an "
                          "entry per dim, else there are none");
  return success();
}

/// Calls `body` with the number of each element of a tensor of `shape` and its
/// random word. `operands` are seed, step, microbatch and offsets.
template <typename Op>
static void forEachWord(Op op, ArrayRef<int64_t> shape,
                        ArrayRef<Tensor> operands,
                        function_ref<void(int64_t, uint32_t)> body) {
  SmallVector<int64_t> strides =
      getStrides(op.getGlobalShape().value_or(shape));
  int64_t base = 0, i = 0;
  if (op.getGlobalShape())
    for (auto [offset, stride] :
         llvm::zip_equal(operands.drop_front(3), strides))
      base += offset.integers[0] * stride;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    uint64_t element = base;
    for (auto [position, stride] : llvm::zip_equal(index, strides))
      element += position * stride;
    body(i++, getRandomWord(op.getRngId(), element, operands[0].integers[0],
                            operands[1].integers[0], operands[2].integers[0]));
  });
}

Value graph::getBlockPlace(LocalContext &context, Location location,
                           sharding::LayoutAttr layout, int64_t dim,
                           int64_t size) {
  Value place =
      layout ? context.blockOffset(location, layout, dim, size) : Value();
  return place ? place
               : splat(context.builder, location,
                       RankedTensorType::get({}, context.builder.getI64Type()),
                       0);
}

/// Appends the place of a device's block of `shape`: one scalar per dim.
static void appendOffsets(LocalContext &context, Location location,
                          sharding::LayoutAttr layout, ArrayRef<int64_t> shape,
                          SmallVectorImpl<Value> &operands) {
  for (auto [dim, size] : llvm::enumerate(shape))
    operands.push_back(getBlockPlace(context, location, layout, dim, size));
}

// dropout

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
  // Every device drops the same elements and scales up the others.
  for (sharding::ReductionKind kind :
       {sharding::ReductionKind::Sum, sharding::ReductionKind::Max,
        sharding::ReductionKind::Min})
    rule.setPass(kind, 0, PartialPass::Alone);
  return rule;
}

LogicalResult DropoutOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()}, 3)))
    return failure();
  if (getShape(getInput()) != getShape(getResult()))
    return emitOpError("[4] result has another shape than the input");
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("[5] rate is ") << rate << "; it must be in [0, 1)";
  return verifyRandom(*this, getShape(getInput()));
}

LogicalResult DropoutOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  double rate = getRate().convertToDouble();
  double threshold = rate * 4294967296.0;
  forEachWord(*this, operands[0].shape, operands.drop_front(1),
              [&](int64_t i, uint32_t word) {
                results[0].floats[i] =
                    word >= threshold ? operands[0].floats[i] / (1 - rate) : 0;
              });
  return success();
}

LogicalResult DropoutOp::localize(LocalContext &context, ValueRange operands,
                                  SmallVectorImpl<Value> &results) {
  if (getGlobalShape())
    return emitOpError("is a block of one device already");
  SmallVector<Value> all(operands);
  appendOffsets(context, getLoc(), sharding::getLayout(getInput()),
                getShape(operands[0]), all);
  auto local = DropoutOp::create(context.builder, getLoc(),
                                 TypeRange{operands[0].getType()}, all,
                                 (*this)->getAttrs());
  local.setGlobalShape(getShape(getInput()));
  results.push_back(local);
  return success();
}

std::optional<double> DropoutOp::getDropRate() {
  return getRate().convertToDouble();
}

SmallVector<Value> DropoutOp::buildWithoutDropout(OpBuilder &,
                                                  const IRMapping &mapping) {
  return {mapping.lookupOrDefault<Value>(getInput())};
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

// uniform

void UniformOp::build(OpBuilder &builder, OperationState &state,
                      RankedTensorType type, Value seed, Value step,
                      Value microbatch, int64_t rngId) {
  state.addOperands({seed, step, microbatch});
  state.getOrAddProperties<Properties>().rng_id =
      builder.getI64IntegerAttr(rngId);
  state.addTypes(type);
}

ShardingRule UniformOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.results = {addFactors(rule, getShape(getResult()))};
  return rule;
}

LogicalResult UniformOp::verify() {
  return verifyRandom(*this, getShape(getResult()));
}

LogicalResult UniformOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  forEachWord(*this, results[0].shape, operands, [&](int64_t i, uint32_t word) {
    results[0].floats[i] = (word & 0xFFFFFF00u) / 4294967296.0;
  });
  return success();
}

LogicalResult UniformOp::localize(LocalContext &context, ValueRange operands,
                                  SmallVectorImpl<Value> &results) {
  if (getGlobalShape())
    return emitOpError("is a block of one device already");
  auto type = cast<RankedTensorType>(getResult().getType());
  RankedTensorType block = sharding::getLocalType(type);
  SmallVector<Value> all(operands);
  appendOffsets(context, getLoc(), sharding::getLayout(getResult()),
                block.getShape(), all);
  auto local = UniformOp::create(context.builder, getLoc(), TypeRange{block},
                                 all, (*this)->getAttrs());
  local.setGlobalShape(type.getShape());
  results.push_back(local);
  return success();
}
