// Ops that move elements by position: constant, iota, reshape, transpose,
// broadcast, slice, pad, concat.

#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using shard::ReductionKind;

using Gradients = FailureOr<SmallVector<Value>>;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
static ArrayRef<int64_t> shapeOf(Value value) {
  return typeOf(value).getShape();
}

// Constant

void ConstantOp::build(OpBuilder &builder, OperationState &state,
                       RankedTensorType type, double value) {
  Type element = type.getElementType();
  auto plain = RankedTensorType::get(type.getShape(), element);
  Attribute scalar;
  if (auto floatType = dyn_cast<FloatType>(element))
    scalar = FloatAttr::get(floatType, value);
  else
    scalar = IntegerAttr::get(element, static_cast<int64_t>(value));
  build(builder, state, type, DenseElementsAttr::get(plain, scalar));
}

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  // The attribute has no layout: folding a laid-out constant would lose it.
  return shard::getLayout(getResult()) ? OpFoldResult() : OpFoldResult(getValue());
}

LogicalResult ConstantOp::verify() {
  if (getValue().getShapedType().getShape() != shapeOf(getResult()) ||
      getValue().getElementType() != typeOf(getResult()).getElementType())
    return emitOpError("has a value of type ")
           << getValue().getShapedType() << " and a result of type "
           << getResult().getType();
  return success();
}

ShardingRule ConstantOp::getShardingRule() { return elementwiseRule(*this); }

LogicalResult ConstantOp::localize(LocalContext &context, ValueRange,
                                   SmallVectorImpl<Value> &results) {
  auto value = cast<DenseElementsAttr>(getValue());
  RankedTensorType local = shard::getLocalType(typeOf(getResult()));
  shard::LayoutAttr layout = shard::getLayout(getResult());
  if (value.isSplat()) {
    results.push_back(ConstantOp::create(context.builder, getLoc(), local,
                                         value.resizeSplat(local)));
    return success();
  }
  // One dim after another: pad, then keep this device's block by gathering
  // its indices.
  Value block = ConstantOp::create(context.builder, getLoc(), value);
  for (int64_t d = 0, rank = local.getRank(); d < rank; ++d) {
    shard::DimAttr dim = layout.getDim(d);
    int64_t size = local.getDimSize(d);
    if (dim.isWhole())
      continue;
    auto indexType =
        RankedTensorType::get({size}, context.builder.getI64Type());
    Value indices = IotaOp::create(context.builder, getLoc(), indexType, 0);
    if (Value offset = context.blockOffset(getLoc(), layout, d, size))
      indices = AddOp::create(
          context.builder, getLoc(), indices,
          BroadcastOp::create(context.builder, getLoc(), offset,
                              ArrayRef<int64_t>{size}, ArrayRef<int64_t>{}));
    block = GatherOp::create(context.builder, getLoc(), block, indices, d);
  }
  results.push_back(block);
  return success();
}

LogicalResult ConstantOp::evaluate(ArrayRef<Tensor>,
                                   MutableArrayRef<Tensor> results) {
  results[0] = Tensor::fromAttribute(cast<DenseElementsAttr>(getValue()));
  return success();
}

// Iota

LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getDim()) >= typeOf(getResult()).getRank() ||
      static_cast<int64_t>(getDim()) < 0)
    return emitOpError("counts along dim ")
           << getDim() << " of a result of rank "
           << typeOf(getResult()).getRank();
  return success();
}

ShardingRule IotaOp::getShardingRule() { return elementwiseRule(*this); }

LogicalResult IotaOp::localize(LocalContext &context, ValueRange,
                               SmallVectorImpl<Value> &results) {
  OpBuilder &builder = context.builder;
  RankedTensorType local = shard::getLocalType(typeOf(getResult()));
  Value result = IotaOp::create(builder, getLoc(), local, getDim());
  Value offset =
      context.blockOffset(getLoc(), shard::getLayout(getResult()), getDim(),
                          local.getDimSize(getDim()));
  if (offset) {
    if (offset.getType() != local.getElementType())
      offset = ConvertOp::create(builder, getLoc(), offset,
                                 local.getElementType());
    result = AddOp::create(builder, getLoc(), result,
                           BroadcastOp::create(builder, getLoc(), offset,
                                               local.getShape(),
                                               ArrayRef<int64_t>{}));
  }
  results.push_back(result);
  return success();
}

LogicalResult IotaOp::evaluate(ArrayRef<Tensor>,
                               MutableArrayRef<Tensor> results) {
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    results[0].set(to++, index[getDim()]);
  });
  return success();
}

// Reshape

void ReshapeOp::build(OpBuilder &builder, OperationState &state, Value input,
                      ArrayRef<int64_t> shape) {
  build(builder, state,
        RankedTensorType::get(shape, typeOf(input).getElementType()), input);
}

LogicalResult ReshapeOp::verify() {
  if (numElements(shapeOf(getInput())) != numElements(shapeOf(getResult())))
    return emitOpError("gives ")
           << getInput().getType() << " the shape of " << getResult().getType()
           << ", which has another number of elements";
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

/// Splits both shapes into the finest factors that both are products of: the
/// walk takes the smaller of the two remaining sizes while it divides the
/// larger. Where it does not divide, the rest up to the next common boundary is
/// one replicated factor on each side.
ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  ArrayRef<int64_t> in = shapeOf(getInput()), out = shapeOf(getResult());
  TensorFactors &inFactors = rule.operands[0], &outFactors = rule.results[0];
  rule.passAll(0);
  if (llvm::is_contained(in, 0))
    return rule;
  size_t i = 0, j = 0;
  int64_t restIn = 1, restOut = 1;
  while (true) {
    while (restIn == 1 && i < in.size())
      restIn = in[i++];
    while (restOut == 1 && j < out.size())
      restOut = out[j++];
    if (restIn == 1 || restOut == 1)
      break;
    int64_t size = std::min(restIn, restOut);
    if (std::max(restIn, restOut) % size == 0) {
      // The dim's more minor part has to follow in the other shape.
      int factor = rule.addFactor(size);
      inFactors[i - 1].push_back(factor);
      outFactors[j - 1].push_back(factor);
      restIn /= size;
      restOut /= size;
      continue;
    }
    // Incommensurable: one closed factor per dim up to a common boundary.
    auto close = [&](TensorFactors &factors, size_t dim, int64_t size) {
      factors[dim].push_back(rule.addFactor(size, FactorKind::Replicated));
    };
    close(inFactors, i - 1, restIn);
    close(outFactors, j - 1, restOut);
    int64_t left = restIn, right = restOut;
    while (left != right) {
      if (left < right) {
        if (in[i] != 1)
          close(inFactors, i, in[i]);
        left *= in[i++];
      } else {
        if (out[j] != 1)
          close(outFactors, j, out[j]);
        right *= out[j++];
      }
    }
    restIn = restOut = 1;
  }
  return rule;
}

LogicalResult ReshapeOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  results[0] = operands[0].reshaped(results[0].shape);
  return success();
}

Gradients ReshapeOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> gradients, ArrayRef<bool>) {
  return SmallVector<Value>{
      ReshapeOp::create(builder, getLoc(), gradients[0], shapeOf(getInput()))};
}

// Transpose

void TransposeOp::build(OpBuilder &builder, OperationState &state, Value input,
                        ArrayRef<int64_t> permutation) {
  RankedTensorType type = typeOf(input);
  SmallVector<int64_t> shape;
  for (int64_t d : permutation)
    shape.push_back(type.getDimSize(d));
  build(builder, state, RankedTensorType::get(shape, type.getElementType()),
        input, permutation);
}

LogicalResult TransposeOp::verify() {
  SmallVector<int64_t> sorted(getPermutation());
  llvm::sort(sorted);
  ArrayRef<int64_t> in = shapeOf(getInput()), out = shapeOf(getResult());
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, in.size())))
    return emitOpError("needs a permutation of ") << in.size() << " dims";
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    if (out.size() != in.size() || out[i] != in[d])
      return emitOpError("does not take ")
             << getInput().getType() << " to " << getResult().getType();
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::is_sorted(getPermutation()) && getInput().getType() == getType())
    return getInput();
  return {};
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    if (int64_t size = shapeOf(getInput())[d]; size != 1)
      rule.operands[0][d] = rule.results[0][i] = {rule.addFactor(size)};
  return rule;
}

LogicalResult TransposeOp::evaluate(ArrayRef<Tensor> operands,
                                    MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> strides = getStrides(operands[0].shape);
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [i, d] : llvm::enumerate(getPermutation()))
      from += index[i] * strides[d];
    results[0].copy(to++, operands[0], from);
  });
  return success();
}

Gradients TransposeOp::buildGradient(OpBuilder &builder,
                                     ArrayRef<Value> gradients,
                                     ArrayRef<bool>) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    inverse[d] = i;
  return SmallVector<Value>{
      TransposeOp::create(builder, getLoc(), gradients[0], inverse)};
}

// Broadcast

void BroadcastOp::build(OpBuilder &builder, OperationState &state, Value input,
                        ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  build(builder, state,
        RankedTensorType::get(shape, typeOf(input).getElementType()), input,
        dims);
}

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> in = shapeOf(getInput()), out = shapeOf(getResult());
  if (getDims().size() != in.size())
    return emitOpError("has ") << getDims().size() << " dims for an operand of "
                               << in.size();
  for (auto [i, d] : llvm::enumerate(getDims())) {
    if (d < 0 || d >= static_cast<int64_t>(out.size()) ||
        (i && getDims()[i - 1] >= d))
      return emitOpError("dims ascend and lie inside the result's rank of ")
             << out.size();
    if (in[i] != out[d])
      return emitOpError("puts dim ")
             << i << " of size " << in[i] << " on dim " << d << " of size "
             << out[d] << "; reshape a dim of size 1 away";
  }
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  for (auto [d, size] : llvm::enumerate(shapeOf(getResult())))
    if (size != 1)
      rule.results[0][d] = {rule.addFactor(size)};
  for (auto [i, d] : llvm::enumerate(getDims()))
    rule.operands[0][i] = rule.results[0][d];
  return rule;
}

LogicalResult BroadcastOp::evaluate(ArrayRef<Tensor> operands,
                                    MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> strides = getStrides(operands[0].shape);
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [i, d] : llvm::enumerate(getDims()))
      from += index[d] * strides[i];
    results[0].copy(to++, operands[0], from);
  });
  return success();
}

Gradients BroadcastOp::buildGradient(OpBuilder &builder,
                                     ArrayRef<Value> gradients,
                                     ArrayRef<bool>) {
  SmallVector<int64_t> added;
  for (int64_t d = 0, rank = shapeOf(getResult()).size(); d < rank; ++d)
    if (!llvm::is_contained(getDims(), d))
      added.push_back(d);
  if (added.empty())
    return SmallVector<Value>{gradients[0]};
  return SmallVector<Value>{ReduceOp::create(
      builder, getLoc(), ReductionKind::Sum, gradients[0], added)};
}

// Slice

void SliceOp::build(OpBuilder &builder, OperationState &state, Value input,
                    ArrayRef<int64_t> starts, ArrayRef<int64_t> limits,
                    ArrayRef<int64_t> strides) {
  SmallVector<int64_t> shape;
  for (auto [start, limit, stride] : llvm::zip_equal(starts, limits, strides))
    shape.push_back(limit <= start ? 0 : (limit - start + stride - 1) / stride);
  build(builder, state,
        RankedTensorType::get(shape, typeOf(input).getElementType()), input,
        starts, limits, strides);
}

void SliceOp::build(OpBuilder &builder, OperationState &state, Value input,
                    int64_t dim, int64_t start, int64_t limit) {
  SmallVector<int64_t> starts(shapeOf(input).size(), 0), limits(shapeOf(input)),
      strides(shapeOf(input).size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  build(builder, state, input, starts, limits, strides);
}

bool SliceOp::isWhole(int64_t d) {
  return getStarts()[d] == 0 && getStrides()[d] == 1 &&
         getLimits()[d] == shapeOf(getInput())[d];
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> in = shapeOf(getInput()), out = shapeOf(getResult());
  if (getStarts().size() != in.size() || getLimits().size() != in.size() ||
      getStrides().size() != in.size() || out.size() != in.size())
    return emitOpError("needs a start, a limit and a stride per dim");
  for (auto [d, size] : llvm::enumerate(in)) {
    int64_t start = getStarts()[d], limit = getLimits()[d],
            stride = getStrides()[d];
    if (start < 0 || limit < start || limit > size || stride < 1)
      return emitOpError("takes [")
             << start << ", " << limit << ") by " << stride << " of dim " << d
             << " of size " << size;
    if (out[d] != (limit - start + stride - 1) / stride)
      return emitOpError("result dim ") << d << " has size " << out[d]
                                        << ", the slice "
                                        << (limit - start + stride - 1) / stride;
  }
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  for (auto [d, size] : llvm::enumerate(shapeOf(getInput()))) {
    if (isWhole(d)) {
      if (size != 1)
        rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(size)};
      continue;
    }
    // Taken apart: blocks of operand and result do not lie on one device.
    rule.operands[0][d] = {rule.addFactor(size, FactorKind::Replicated)};
    if (int64_t part = shapeOf(getResult())[d]; part != 1)
      rule.results[0][d] = {rule.addFactor(part, FactorKind::Replicated)};
  }
  return rule;
}

LogicalResult SliceOp::localize(LocalContext &context, ValueRange operands,
                                SmallVectorImpl<Value> &results) {
  SmallVector<int64_t> limits(getLimits());
  for (int64_t d = 0, rank = limits.size(); d < rank; ++d)
    if (isWhole(d))
      limits[d] = shapeOf(operands[0])[d];
  results.push_back(SliceOp::create(context.builder, getLoc(), operands[0],
                                    getStarts(), limits, getStrides()));
  return success();
}

LogicalResult SliceOp::evaluate(ArrayRef<Tensor> operands,
                                MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> strides = graph::getStrides(operands[0].shape);
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [d, i] : llvm::enumerate(index))
      from += (getStarts()[d] + i * getStrides()[d]) * strides[d];
    results[0].copy(to++, operands[0], from);
  });
  return success();
}

Gradients SliceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                 ArrayRef<bool>) {
  SmallVector<int64_t> low(getStarts()), high, interior;
  for (auto [d, size] : llvm::enumerate(shapeOf(getInput()))) {
    int64_t count = shapeOf(getResult())[d], stride = getStrides()[d];
    interior.push_back(stride - 1);
    high.push_back(size - low[d] - (count ? (count - 1) * stride + 1 : 0));
  }
  return SmallVector<Value>{PadOp::create(builder, getLoc(), gradients[0], low,
                                          high, interior, 0.0)};
}

// Pad

void PadOp::build(OpBuilder &builder, OperationState &state, Value input,
                  ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                  ArrayRef<int64_t> interior, double value) {
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(shapeOf(input)))
    shape.push_back(low[d] + high[d] +
                    (size ? size + (size - 1) * interior[d] : 0));
  build(builder, state,
        RankedTensorType::get(shape, typeOf(input).getElementType()), input,
        low, high, interior, APFloat(value));
}

LogicalResult PadOp::verify() {
  ArrayRef<int64_t> in = shapeOf(getInput()), out = shapeOf(getResult());
  if (getLow().size() != in.size() || getHigh().size() != in.size() ||
      getInterior().size() != in.size() || out.size() != in.size())
    return emitOpError("needs a low, a high and an interior padding per dim");
  for (auto [d, size] : llvm::enumerate(in)) {
    int64_t low = getLow()[d], high = getHigh()[d], interior = getInterior()[d];
    if (low < 0 || high < 0 || interior < 0)
      return emitOpError("pads dim ") << d << " by a negative number; use slice";
    int64_t padded = low + high + (size ? size + (size - 1) * interior : 0);
    if (out[d] != padded)
      return emitOpError("result dim ") << d << " has size " << out[d]
                                        << ", padded it has " << padded;
  }
  return success();
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  // The padding of a partial sum would be added once per device.
  rule.passAll(0);
  if (!getValue().isZero())
    rule.setPass(ReductionKind::Sum, 0, PartialPass::None);
  for (auto [d, size] : llvm::enumerate(shapeOf(getInput()))) {
    if (shapeOf(getResult())[d] == size) {
      if (size != 1)
        rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(size)};
      continue;
    }
    if (size != 1)
      rule.operands[0][d] = {rule.addFactor(size, FactorKind::Replicated)};
    rule.results[0][d] = {
        rule.addFactor(shapeOf(getResult())[d], FactorKind::Replicated)};
  }
  return rule;
}

LogicalResult PadOp::evaluate(ArrayRef<Tensor> operands,
                              MutableArrayRef<Tensor> results) {
  Tensor &result = results[0];
  result = Tensor::splat(result.getType(), getValue().convertToDouble());
  SmallVector<int64_t> strides = getStrides(result.shape);
  int64_t from = 0;
  forEachIndex(operands[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t to = 0;
    for (auto [d, i] : llvm::enumerate(index))
      to += (getLow()[d] + i * (getInterior()[d] + 1)) * strides[d];
    result.copy(to, operands[0], from++);
  });
  return success();
}

Gradients PadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                               ArrayRef<bool>) {
  SmallVector<int64_t> starts(getLow()), limits, strides;
  for (auto [d, size] : llvm::enumerate(shapeOf(getInput()))) {
    strides.push_back(getInterior()[d] + 1);
    limits.push_back(starts[d] + (size ? (size - 1) * strides[d] + 1 : 0));
  }
  return SmallVector<Value>{SliceOp::create(builder, getLoc(), gradients[0],
                                            starts, limits, strides)};
}

// Concat

void ConcatOp::build(OpBuilder &builder, OperationState &state,
                     ValueRange inputs, int64_t dim) {
  SmallVector<int64_t> shape(shapeOf(inputs[0]));
  for (Value input : inputs.drop_front())
    shape[dim] += shapeOf(input)[dim];
  build(builder, state,
        RankedTensorType::get(shape, typeOf(inputs[0]).getElementType()),
        inputs, dim);
}

LogicalResult ConcatOp::verify() {
  ArrayRef<int64_t> out = shapeOf(getResult());
  if (getInputs().empty())
    return emitOpError("needs an operand");
  int64_t total = 0, dim = getDim();
  if (dim < 0 || dim >= static_cast<int64_t>(out.size()))
    return emitOpError("joins along dim ")
           << dim << " of a result of rank " << out.size();
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    ArrayRef<int64_t> in = shapeOf(input);
    for (auto [d, size] : llvm::enumerate(out))
      if (in.size() != out.size() ||
          (static_cast<int64_t>(d) != dim && in[d] != size))
        return emitOpError("operand ") << i << " of type " << input.getType()
                                       << " does not fit the result "
                                       << getResult().getType();
    total += in[dim];
  }
  if (total != out[dim])
    return emitOpError("operands add up to ")
           << total << " along dim " << dim << ", the result has " << out[dim];
  return success();
}

ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  int64_t dim = getDim();
  for (unsigned i = 0; i < getNumOperands(); ++i) {
    rule.setPass(ReductionKind::Sum, i, PartialPass::Together);
    rule.setPass(ReductionKind::Max, i, PartialPass::Any);
    rule.setPass(ReductionKind::Min, i, PartialPass::Any);
    if (int64_t size = shapeOf(getOperand(i))[dim]; size != 1)
      rule.operands[i][dim] = {rule.addFactor(size, FactorKind::Replicated)};
  }
  for (auto [d, size] : llvm::enumerate(shapeOf(getResult()))) {
    if (size == 1)
      continue;
    bool joined = static_cast<int64_t>(d) == dim;
    int factor = rule.addFactor(
        size, joined ? FactorKind::Replicated : FactorKind::Parallel);
    rule.results[0][d] = {factor};
    if (!joined)
      for (TensorFactors &operand : rule.operands)
        operand[d] = {factor};
  }
  return rule;
}

LogicalResult ConcatOp::evaluate(ArrayRef<Tensor> operands,
                                 MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> start(results[0].getRank(), 0);
  for (const Tensor &operand : operands) {
    results[0].insert(operand, start);
    start[getDim()] += operand.shape[getDim()];
  }
  return success();
}

Gradients ConcatOp::buildGradient(OpBuilder &builder,
                                  ArrayRef<Value> gradients,
                                  ArrayRef<bool> needed) {
  SmallVector<Value> result(getNumOperands());
  int64_t start = 0, dim = getDim();
  for (unsigned i = 0; i < getNumOperands(); ++i) {
    int64_t size = shapeOf(getOperand(i))[dim];
    if (needed[i])
      result[i] = SliceOp::create(builder, getLoc(), gradients[0], dim, start,
                                  start + size);
    start += size;
  }
  return result;
}
