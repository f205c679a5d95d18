// layer_norm and rms_norm with their gradients.

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

/// The dims of `input` that `scale` has, which are the last ones.
static SmallVector<int64_t> normalizedDims(Value input, Value scale) {
  int64_t rank = getShape(input).size(), count = getShape(scale).size();
  return llvm::to_vector(llvm::seq<int64_t>(rank - count, rank));
}

/// The dims of `input` that `scale` lacks, which are the first ones.
static SmallVector<int64_t> rowDims(Value input, Value scale) {
  int64_t rank = getShape(input).size(), count = getShape(scale).size();
  return llvm::to_vector(llvm::seq<int64_t>(0, rank - count));
}

/// Verifies that the values other than `statistics` are floats of one type, and
/// that statistics have that in which their sums are formed.
static LogicalResult verifyTypes(Operation *op, ArrayRef<Value> statistics) {
  SmallVector<Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  llvm::erase_if(values, [&](Value value) {
    return llvm::is_contained(statistics, value);
  });
  return verifySums(op, values, "statistics", statistics);
}

static LogicalResult verifyShapes(Operation *op, Value input, ValueRange scales,
                                  ValueRange statistics) {
  ArrayRef<int64_t> shape = getShape(input);
  ArrayRef<int64_t> normalized = getShape(scales[0]);
  if (normalized.empty() || normalized.size() > shape.size() ||
      shape.take_back(normalized.size()) != normalized)
    return op->emitOpError("[3] scale of shape [")
           << normalized << "] must have the last dims of the input's ["
           << shape << "]";
  for (Value scale : scales)
    if (getShape(scale) != normalized)
      return op->emitOpError("[5] scale and bias must have one shape, not [")
             << normalized << "] and [" << getShape(scale) << "]";
  for (Value statistic : statistics)
    if (getShape(statistic) != shape.drop_back(normalized.size()))
      return op->emitOpError("[4] statistics must have the dims [")
             << shape.drop_back(normalized.size()) << "], not ["
             << getShape(statistic) << "]";
  return success();
}

namespace {
/// The factors of the input's first dims, of its last dims, and of all.
struct RowsAndColumns {
  TensorFactors rows, columns, all;
};
} // namespace

template <typename OpType>
static RowsAndColumns addRowsAndColumns(ShardingRule &rule, OpType op,
                                        FactorKind rowKind) {
  size_t count = getShape(op.getScale()).size();
  ArrayRef<int64_t> shape = getShape(op.getInput());
  RowsAndColumns factors;
  factors.rows = addFactors(rule, shape.drop_back(count), rowKind);
  factors.columns =
      addFactors(rule, shape.take_back(count), FactorKind::Composite);
  factors.all = factors.rows;
  llvm::append_range(factors.all, factors.columns);
  return factors;
}

void LayerNormOp::build(OpBuilder &builder, OperationState &state, Value input,
                        Value scale, Value bias, double epsilon) {
  state.addOperands({input, scale, bias});
  state.getOrAddProperties<Properties>().epsilon =
      builder.getF64FloatAttr(epsilon);
  RankedTensorType type = getGlobalType(input);
  auto rows =
      RankedTensorType::get(type.getShape().drop_back(getShape(scale).size()),
                            accumulatorOf(type.getElementType()));
  addResultTypes(builder, state, {type, rows, rows});
}

ShardingRule LayerNormOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  auto [rows, columns, all] =
      addRowsAndColumns(rule, *this, FactorKind::Parallel);
  rule.operands = {all, columns, columns};
  rule.results = {all, rows, rows};
  return rule;
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyTypes(*this, {getMean(), getRstd()})))
    return failure();
  if (getShape(getResult()) != getShape(getInput()))
    return emitOpError("[2] has result ")
           << getResult().getType() << " for an input of type "
           << getInput().getType() << "; their shapes are equal";
  return verifyShapes(*this, getInput(), {getScale(), getBias()},
                      {getMean(), getRstd()});
}

LogicalResult LayerNormOp::evaluate(ArrayRef<Tensor> operands,
                                    MutableArrayRef<Tensor> results) {
  const auto &scale = operands[1].floats, &bias = operands[2].floats;
  int64_t columns = scale.size();
  double epsilon = getEpsilon().convertToDouble();
  for (int64_t row = 0, rows = results[1].size(); row < rows; ++row) {
    const double *x = &operands[0].floats[row * columns];
    double *y = &results[0].floats[row * columns];
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < columns; ++i)
      mean += x[i];
    mean /= columns;
    for (int64_t i = 0; i < columns; ++i)
      variance += (x[i] - mean) * (x[i] - mean);
    double rstd = 1 / std::sqrt(variance / columns + epsilon);
    for (int64_t i = 0; i < columns; ++i)
      y[i] = (x[i] - mean) * rstd * scale[i] + bias[i];
    results[1].floats[row] = mean;
    results[2].floats[row] = rstd;
  }
  return success();
}

FailureOr<SmallVector<Value>>
LayerNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                           ArrayRef<bool> needed) {
  if (resultGradients[1] || resultGradients[2])
    return emitOpError("has no gradient through mean and rstd, which are "
                       "residuals of its backward");
  auto gradient = LayerNormGradOp::create(
      builder, getLoc(),
      TypeRange{getInput().getType(), getScale().getType(),
                getBias().getType()},
      ValueRange{resultGradients[0], getInput(), getScale(), getMean(),
                 getRstd()});
  return SmallVector<Value>(gradient.getResults());
}

SmallVector<Value> LayerNormOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value x = getInput();
  ArrayRef<int64_t> shape = getShape(x);
  SmallVector<int64_t> columns = normalizedDims(x, getScale());
  SmallVector<int64_t> rows = rowDims(x, getScale());
  double share = 1.0 / numElements(getShape(getScale()));
  Value mean = parts.mul(parts.sum(x, columns), share);
  Value centered = parts.sub(x, parts.broadcast(mean, shape, columns));
  // Two reductions are needed: the mean of the squares minus the square of the
  // mean would cancel.
  Value variance =
      parts.mul(parts.sum(parts.mul(centered, centered), columns), share);
  Value rstd =
      parts.apply<RsqrtOp>(parts.add(variance, getEpsilon().convertToDouble()));
  Value normalized = parts.mul(centered, parts.broadcast(rstd, shape, columns));
  Value result =
      parts.add(parts.mul(normalized, parts.broadcast(getScale(), shape, rows)),
                parts.broadcast(getBias(), shape, rows));
  return {result, mean, rstd};
}

ShardingRule LayerNormGradOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  // scaleGradient and biasGradient are sums over the rows.
  auto [rows, columns, all] =
      addRowsAndColumns(rule, *this, FactorKind::Reduction);
  rule.operands = {all, all, columns, rows, rows};
  rule.results = {all, columns, columns};
  rule.setPass(sharding::ReductionKind::Sum, 0, PartialPass::Alone);
  return rule;
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(verifyTypes(*this, {getMean(), getRstd()})))
    return failure();
  if (getShape(getResultGradient()) != getShape(getInput()) ||
      getShape(getInputGradient()) != getShape(getInput()))
    return emitOpError("[2] gradients must have the shape of their values");
  return verifyShapes(*this, getInput(),
                      {getScale(), getScaleGradient(), getBiasGradient()},
                      {getMean(), getRstd()});
}

LogicalResult LayerNormGradOp::evaluate(ArrayRef<Tensor> operands,
                                        MutableArrayRef<Tensor> results) {
  const auto &scale = operands[2].floats;
  int64_t columns = scale.size();
  for (int64_t row = 0, rows = operands[3].size(); row < rows; ++row) {
    const double *dy = &operands[0].floats[row * columns];
    const double *x = &operands[1].floats[row * columns];
    double *dx = &results[0].floats[row * columns];
    double mean = operands[3].floats[row], rstd = operands[4].floats[row];
    double total = 0, dot = 0;
    for (int64_t i = 0; i < columns; ++i) {
      double normalized = (x[i] - mean) * rstd;
      total += dy[i] * scale[i];
      dot += dy[i] * scale[i] * normalized;
      results[1].floats[i] += dy[i] * normalized;
      results[2].floats[i] += dy[i];
    }
    for (int64_t i = 0; i < columns; ++i)
      dx[i] = rstd * (dy[i] * scale[i] - total / columns -
                      (x[i] - mean) * rstd * dot / columns);
  }
  return success();
}

/// The gradients of input and scale. With the normalized input n, the gradient
/// of n, d = dy * scale, and means over the columns, that of the input is rstd
/// * (d - mean(d) - n * mean(d * n)); a norm without `mean` has no mean(d).
static std::pair<Value, Value> buildNormGradient(Parts &parts, Value dy,
                                                 Value x, Value scale,
                                                 Value mean, Value rstd) {
  ArrayRef<int64_t> shape = getShape(x);
  SmallVector<int64_t> columns = normalizedDims(x, scale);
  SmallVector<int64_t> rows = rowDims(x, scale);
  double share = 1.0 / numElements(getShape(scale));
  auto spread = [&](Value row) { return parts.broadcast(row, shape, columns); };
  rstd = spread(rstd);
  Value centered = mean ? parts.sub(x, spread(mean)) : x;
  Value normalized = parts.mul(centered, rstd);
  Value scaled = parts.mul(dy, parts.broadcast(scale, shape, rows));
  Value total = mean ? parts.mul(parts.sum(scaled, columns), share) : Value();
  Value dot =
      parts.mul(parts.sum(parts.mul(scaled, normalized), columns), share);
  Value inner = total ? parts.sub(scaled, spread(total)) : scaled;
  inner = parts.sub(inner, parts.mul(normalized, spread(dot)));
  Value inputGradient = parts.mul(rstd, inner);
  return {inputGradient, parts.sum(parts.mul(dy, normalized), rows)};
}

SmallVector<Value> LayerNormGradOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value x = getInput(), dy = getResultGradient();
  auto [dx, dscale] =
      buildNormGradient(parts, dy, x, getScale(), getMean(), getRstd());
  return {dx, dscale, parts.sum(dy, rowDims(x, getScale()))};
}

void RmsNormOp::build(OpBuilder &builder, OperationState &state, Value input,
                      Value scale, double epsilon) {
  state.addOperands({input, scale});
  state.getOrAddProperties<Properties>().epsilon =
      builder.getF64FloatAttr(epsilon);
  RankedTensorType type = getGlobalType(input);
  auto rows =
      RankedTensorType::get(type.getShape().drop_back(getShape(scale).size()),
                            accumulatorOf(type.getElementType()));
  addResultTypes(builder, state, {type, rows});
}

ShardingRule RmsNormOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  auto [rows, columns, all] =
      addRowsAndColumns(rule, *this, FactorKind::Parallel);
  rule.operands = {all, columns};
  rule.results = {all, rows};
  return rule;
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyTypes(*this, {getRstd()})))
    return failure();
  if (getShape(getResult()) != getShape(getInput()))
    return emitOpError("[2] has result ")
           << getResult().getType() << " for an input of type "
           << getInput().getType() << "; their shapes are equal";
  return verifyShapes(*this, getInput(), {getScale()}, {getRstd()});
}

LogicalResult RmsNormOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  const auto &scale = operands[1].floats;
  int64_t columns = scale.size();
  double epsilon = getEpsilon().convertToDouble();
  for (int64_t row = 0, rows = results[1].size(); row < rows; ++row) {
    const double *x = &operands[0].floats[row * columns];
    double squares = 0;
    for (int64_t i = 0; i < columns; ++i)
      squares += x[i] * x[i];
    double rstd = 1 / std::sqrt(squares / columns + epsilon);
    for (int64_t i = 0; i < columns; ++i)
      results[0].floats[row * columns + i] = x[i] * rstd * scale[i];
    results[1].floats[row] = rstd;
  }
  return success();
}

FailureOr<SmallVector<Value>>
RmsNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                         ArrayRef<bool> needed) {
  if (resultGradients[1])
    return emitOpError("has no gradient through rstd, which is a residual of "
                       "its backward");
  auto gradient = RmsNormGradOp::create(
      builder, getLoc(), TypeRange{getInput().getType(), getScale().getType()},
      ValueRange{resultGradients[0], getInput(), getScale(), getRstd()});
  return SmallVector<Value>(gradient.getResults());
}

SmallVector<Value> RmsNormOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value x = getInput();
  ArrayRef<int64_t> shape = getShape(x);
  SmallVector<int64_t> columns = normalizedDims(x, getScale());
  SmallVector<int64_t> rows = rowDims(x, getScale());
  double share = 1.0 / numElements(getShape(getScale()));
  Value square = parts.mul(parts.sum(parts.mul(x, x), columns), share);
  Value rstd =
      parts.apply<RsqrtOp>(parts.add(square, getEpsilon().convertToDouble()));
  Value normalized = parts.mul(x, parts.broadcast(rstd, shape, columns));
  return {parts.mul(normalized, parts.broadcast(getScale(), shape, rows)),
          rstd};
}

ShardingRule RmsNormGradOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  // scaleGradient is a sum over the rows.
  auto [rows, columns, all] =
      addRowsAndColumns(rule, *this, FactorKind::Reduction);
  rule.operands = {all, all, columns, rows};
  rule.results = {all, columns};
  rule.setPass(sharding::ReductionKind::Sum, 0, PartialPass::Alone);
  return rule;
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(verifyTypes(*this, {getRstd()})))
    return failure();
  if (getShape(getResultGradient()) != getShape(getInput()) ||
      getShape(getInputGradient()) != getShape(getInput()))
    return emitOpError("[2] gradients must have the shape of their values");
  return verifyShapes(*this, getInput(), {getScale(), getScaleGradient()},
                      {getRstd()});
}

LogicalResult RmsNormGradOp::evaluate(ArrayRef<Tensor> operands,
                                      MutableArrayRef<Tensor> results) {
  const auto &scale = operands[2].floats;
  int64_t columns = scale.size();
  for (int64_t row = 0, rows = operands[3].size(); row < rows; ++row) {
    const double *dy = &operands[0].floats[row * columns];
    const double *x = &operands[1].floats[row * columns];
    double *dx = &results[0].floats[row * columns];
    double rstd = operands[3].floats[row], dot = 0;
    for (int64_t i = 0; i < columns; ++i) {
      dot += dy[i] * scale[i] * x[i] * rstd;
      results[1].floats[i] += dy[i] * x[i] * rstd;
    }
    for (int64_t i = 0; i < columns; ++i)
      dx[i] = rstd * (dy[i] * scale[i] - x[i] * rstd * dot / columns);
  }
  return success();
}

SmallVector<Value> RmsNormGradOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  auto [dx, dscale] = buildNormGradient(parts, getResultGradient(), getInput(),
                                        getScale(), {}, getRstd());
  return {dx, dscale};
}
