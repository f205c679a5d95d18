// Ops that decompose and join tensors: slice, pad, concat.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

using Gradients = FailureOr<SmallVector<Value>>;

// Slice

static int64_t slicedSize(int64_t start, int64_t limit, int64_t stride) {
  return limit <= start ? 0 : (limit - start + stride - 1) / stride;
}

void SliceOp::build(OpBuilder &builder, OperationState &state, Value input,
                    ArrayRef<int64_t> starts, ArrayRef<int64_t> limits,
                    ArrayRef<int64_t> strides) {
  SmallVector<int64_t> shape;
  for (auto [start, limit, stride] : llvm::zip_equal(starts, limits, strides))
    shape.push_back(slicedSize(start, limit, stride));
  build(builder, state,
        RankedTensorType::get(
            shape, cast<RankedTensorType>(input.getType()).getElementType()),
        input, starts, limits, strides);
}

void SliceOp::build(OpBuilder &builder, OperationState &state, Value input,
                    int64_t dim, int64_t start, int64_t limit) {
  SmallVector<int64_t> starts(getShape(input).size(), 0),
      limits(getShape(input)), strides(getShape(input).size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  build(builder, state, input, starts, limits, strides);
}

bool SliceOp::isWhole(int64_t d) {
  return getStarts()[d] == 0 && getStrides()[d] == 1 &&
         getLimits()[d] == getShape(getInput())[d];
}

LogicalResult SliceOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  if (getStarts().size() != in.size() || getLimits().size() != in.size() ||
      getStrides().size() != in.size() || out.size() != in.size())
    return emitOpError("[2] needs a start, a limit and a stride per dim");
  for (auto [d, size] : llvm::enumerate(in)) {
    int64_t start = getStarts()[d], limit = getLimits()[d],
            stride = getStrides()[d];
    if (start < 0 || limit < start || limit > size || stride < 1)
      return emitOpError("[3] takes [")
             << start << ", " << limit << ") by " << stride << " of dim " << d
             << " of size " << size;
    if (out[d] != slicedSize(start, limit, stride))
      return emitOpError("[4] result dim ")
             << d << " has size " << out[d] << ", the slice "
             << slicedSize(start, limit, stride);
  }
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

/// Returns true if `outside` of `size` elements are few enough to be removed or
/// added at the ends of a split dim: the blocks of operand and result then
/// nearly coincide. They do not if a dim is cut into pieces.
static bool areFew(int64_t outside, int64_t size) {
  return 8 * outside <= size;
}

/// The borders of a dim that a slice cuts at the ends; nullopt if it does not.
static std::optional<Border> haloOf(SliceOp op, int64_t d) {
  int64_t size = getShape(op.getInput())[d],
          count = getShape(op.getResult())[d], start = op.getStarts()[d],
          stride = op.getStrides()[d];
  int64_t behind = size - start - ((count - 1) * stride + 1);
  if (op.isWhole(d) || size < 2 || count < 2 ||
      !areFew(start + std::max<int64_t>(0, behind - stride + 1), size))
    return std::nullopt;
  return Border{stride, 0, std::max<int64_t>(0, start - stride + 1)};
}

ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    if (isWhole(d)) {
      if (size != 1)
        rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(size)};
      continue;
    }
    if (std::optional<Border> border = haloOf(*this, d)) {
      rule.addHalo(d, size, *border, d, getShape(getResult()) [d], {});
      continue;
    }
    // The dim is cut into pieces: corresponding blocks of operand and result
    // are on different devices.
    rule.operands[0][d] = {rule.addFactor(size, FactorKind::Replicated)};
    if (int64_t part = getShape(getResult())[d]; part != 1)
      rule.results[0][d] = {rule.addFactor(part, FactorKind::Replicated)};
  }
  return rule;
}

LogicalResult SliceOp::localize(LocalContext &context, ValueRange operands,
                                SmallVectorImpl<Value> &results) {
  SmallVector<int64_t> limits(getLimits());
  sharding::LayoutAttr layout = sharding::getLayout(getInput());
  for (int64_t d = 0, rank = limits.size(); d < rank; ++d) {
    if (isWhole(d))
      limits[d] = getShape(operands[0])[d];
    if (isWhole(d) || layout.getDim(d).getAxes().empty())
      continue;
    // A block with its border begins at the same local index as the whole
    // tensor, and ends with its result.
    std::optional<Border> border = haloOf(*this, d);
    if (!border)
      return emitOpError("cuts dim ") << d << ", which is split";
    if (failed(verifyBorders(*this, layout.getDim(d), *border)))
      return failure();
    int64_t count = (getShape(operands[0])[d] - border->high) / getStrides()[d];
    limits[d] = getStarts()[d] + (count - 1) * getStrides()[d] + 1;
  }
  results.push_back(SliceOp::create(context.builder, getLoc(), operands[0],
                                    getStarts(), limits, getStrides()));
  return success();
}

LogicalResult SliceOp::evaluate(ArrayRef<Tensor> operands,
                                MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> strides = graph::getStrides(operands[0].shape);
  ArrayRef<int64_t> starts = getStarts(), steps = getStrides();
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [d, i] : llvm::enumerate(index))
      from += (starts[d] + i * steps[d]) * strides[d];
    results[0].copy(to++, operands[0], from);
  });
  return success();
}

Gradients SliceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                 ArrayRef<bool>) {
  SmallVector<int64_t> low(getStarts()), high, interior;
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    int64_t count = getShape(getResult())[d], stride = getStrides()[d];
    interior.push_back(stride - 1);
    high.push_back(size - low[d] - (count ? (count - 1) * stride + 1 : 0));
  }
  return SmallVector<Value>{
      PadOp::create(builder, getLoc(), gradients[0], low, high, interior, 0.0)};
}

// Pad

static int64_t paddedSize(int64_t size, int64_t low, int64_t high,
                          int64_t interior) {
  return low + high + (size ? size + (size - 1) * interior : 0);
}

void PadOp::build(OpBuilder &builder, OperationState &state, Value input,
                  ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                  ArrayRef<int64_t> interior, double value) {
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(getShape(input)))
    shape.push_back(paddedSize(size, low[d], high[d], interior[d]));
  build(builder, state,
        RankedTensorType::get(
            shape, cast<RankedTensorType>(input.getType()).getElementType()),
        input, low, high, interior, APFloat(value));
}

LogicalResult PadOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  if (getLow().size() != in.size() || getHigh().size() != in.size() ||
      getInterior().size() != in.size() || out.size() != in.size())
    return emitOpError(
        "[2] needs a low, a high and an interior padding per dim");
  for (auto [d, size] : llvm::enumerate(in)) {
    int64_t low = getLow()[d], high = getHigh()[d], interior = getInterior()[d];
    if (low < 0 || high < 0 || interior < 0)
      return emitOpError("[3] pads dim ")
             << d << " by a negative number; use slice";
    int64_t padded = paddedSize(size, low, high, interior);
    if (out[d] != padded)
      return emitOpError("[4] result dim ")
             << d << " has size " << out[d] << ", padded it has " << padded;
  }
  return success();
}

/// The borders of a dim that is padded at the ends or in between; nullopt if it
/// is not.
static std::optional<Border> haloOf(PadOp op, int64_t d) {
  int64_t size = getShape(op.getInput())[d],
          padded = getShape(op.getResult())[d], low = op.getLow()[d],
          step = op.getInterior()[d] + 1;
  if (padded == size || size < 2 ||
      !areFew(low + std::max<int64_t>(0, op.getHigh()[d] - step + 1), padded))
    return std::nullopt;
  return Border{1, low / step, 0};
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  if (!isItsOwnSum(getValue()))
    rule.setPass(ReductionKind::Sum, 0, PartialPass::None);
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    if (getShape(getResult())[d] == size) {
      if (size != 1)
        rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(size)};
      continue;
    }
    if (std::optional<Border> border = haloOf(*this, d)) {
      rule.addHalo(d, size, *border, d, getShape(getResult()) [d],
                   { getInterior()[d] + 1, 0, 0 });
      continue;
    }
    if (size != 1)
      rule.operands[0][d] = {rule.addFactor(size, FactorKind::Replicated)};
    rule.results[0][d] = {
        rule.addFactor(getShape(getResult())[d], FactorKind::Replicated)};
  }
  return rule;
}

/// Localizes a split dim: the border comes first, and the elements that the
/// padding before it pushes out at the end belong to the next device.
LogicalResult PadOp::localize(LocalContext &context, ValueRange operands,
                              SmallVectorImpl<Value> &results) {
  sharding::LayoutAttr layout = sharding::getLayout(getInput());
  ArrayRef<int64_t> global = getShape(getInput());
  Value block = operands[0];
  SmallVector<int64_t> low(getLow()), high(getHigh()), limits;
  for (int64_t d = 0, rank = low.size(); d < rank; ++d) {
    int64_t extent = getShape(block)[d], step = getInterior()[d] + 1;
    if (layout.getDim(d).getAxes().empty() ||
        getShape(getResult())[d] == global[d]) {
      limits.push_back(low[d] + high[d] +
                       (extent ? (extent - 1) * step + 1 : 0));
      continue;
    }
    std::optional<Border> border = haloOf(*this, d);
    if (!border)
      return emitOpError("pads dim ") << d << ", which is split";
    if (failed(verifyBorders(*this, layout.getDim(d), *border)))
      return failure();
    block = context.keepInside(getLoc(), block, layout, d, global[d],
                               getValue().convertToDouble());
    low[d] -= border->low * step;
    limits.push_back((extent - border->low) * step);
    high[d] =
        std::max<int64_t>(0, limits[d] - low[d] - (extent - 1) * step - 1);
  }
  Value padded = PadOp::create(context.builder, getLoc(), block, low, high,
                               getInterior(), getValue().convertToDouble());
  if (getShape(padded) != ArrayRef<int64_t>(limits)) {
    SmallVector<int64_t> starts(limits.size(), 0), strides(limits.size(), 1);
    padded = SliceOp::create(context.builder, getLoc(), padded, starts, limits,
                             strides);
  }
  results.push_back(padded);
  return success();
}

LogicalResult PadOp::evaluate(ArrayRef<Tensor> operands,
                              MutableArrayRef<Tensor> results) {
  Tensor &result = results[0];
  result = Tensor::splat(result.getType(), getValue().convertToDouble());
  SmallVector<int64_t> strides = getStrides(result.shape);
  ArrayRef<int64_t> low = getLow(), interior = getInterior();
  int64_t from = 0;
  forEachIndex(operands[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t to = 0;
    for (auto [d, i] : llvm::enumerate(index))
      to += (low[d] + i * (interior[d] + 1)) * strides[d];
    result.copy(to, operands[0], from++);
  });
  return success();
}

Gradients PadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                               ArrayRef<bool>) {
  SmallVector<int64_t> starts(getLow()), limits, strides;
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    strides.push_back(getInterior()[d] + 1);
    limits.push_back(starts[d] + (size ? (size - 1) * strides[d] + 1 : 0));
  }
  return SmallVector<Value>{SliceOp::create(builder, getLoc(), gradients[0],
                                            starts, limits, strides)};
}

// Concat

void ConcatOp::build(OpBuilder &builder, OperationState &state,
                     ValueRange inputs, int64_t dim) {
  SmallVector<int64_t> shape(getShape(inputs[0]));
  for (Value input : inputs.drop_front())
    shape[dim] += getShape(input)[dim];
  build(
      builder, state,
      RankedTensorType::get(
          shape, cast<RankedTensorType>(inputs[0].getType()).getElementType()),
      inputs, dim);
}

LogicalResult ConcatOp::verify() {
  SmallVector<Value> values(getInputs());
  values.push_back(getResult());
  if (failed(verifySameElements(*this, values)))
    return failure();
  ArrayRef<int64_t> out = getShape(getResult());
  if (getInputs().empty())
    return emitOpError("[2] needs an operand");
  int64_t total = 0, dim = getDim();
  if (dim < 0 || dim >= static_cast<int64_t>(out.size()))
    return emitOpError("[3] joins along dim ")
           << dim << " of a result of rank " << out.size();
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    ArrayRef<int64_t> in = getShape(input);
    for (auto [d, size] : llvm::enumerate(out))
      if (in.size() != out.size() ||
          (static_cast<int64_t>(d) != dim && in[d] != size))
        return emitOpError("[4] operand ")
               << i << " of type " << input.getType()
               << " does not fit the result " << getResult().getType();
    total += in[dim];
  }
  if (total != out[dim])
    return emitOpError("[5] operands add up to ")
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
    if (int64_t size = getShape(getOperand(i))[dim]; size != 1)
      rule.operands[i][dim] = {rule.addFactor(size, FactorKind::Replicated)};
  }
  for (auto [d, size] : llvm::enumerate(getShape(getResult()))) {
    if (size == 1)
      continue;
    bool joined = static_cast<int64_t>(d) == dim;
    int factor = rule.addFactor(size, joined ? FactorKind::Replicated
                                             : FactorKind::Parallel);
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

Gradients ConcatOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                  ArrayRef<bool> needed) {
  SmallVector<Value> result(getNumOperands());
  int64_t start = 0, dim = getDim();
  for (unsigned i = 0; i < getNumOperands(); ++i) {
    int64_t size = getShape(getOperand(i))[dim];
    if (needed[i])
      result[i] = SliceOp::create(builder, getLoc(), gradients[0], dim, start,
                                  start + size);
    start += size;
  }
  return result;
}
