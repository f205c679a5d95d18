// cross_entropy and cross_entropy_grad.

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

static SmallVector<int64_t> withoutDim(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> rest(shape);
  rest.erase(rest.begin() + dim);
  return rest;
}

/// Factors of (logits, rows): the classes are composite.
static std::pair<TensorFactors, TensorFactors>
addRowFactors(ShardingRule &rule, ArrayRef<int64_t> shape, int64_t axis) {
  TensorFactors all = addFactors(rule, shape);
  for (int factor : all[axis])
    rule.factors[factor].kind = FactorKind::Composite;
  TensorFactors rows(all);
  rows.erase(rows.begin() + axis);
  return {all, rows};
}

static LogicalResult verifyRows(Operation *op, Value logits, int64_t axis,
                                ValueRange rows) {
  ArrayRef<int64_t> shape = getShape(logits);
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size()))
    return op->emitOpError("[2] axis is ")
           << axis << " for logits of rank " << shape.size();
  for (Value value : rows)
    if (getShape(value) != ArrayRef<int64_t>(withoutDim(shape, axis)))
      return op->emitOpError(
                 "[3] labels, loss and lse must have the logits' dims "
                 "[")
             << shape << "] without the classes (dim " << axis << "), not ["
             << getShape(value) << "]";
  return success();
}

void CrossEntropyOp::build(OpBuilder &builder, OperationState &state,
                           Value logits, Value labels, int64_t axis,
                           int64_t ignoreIndex) {
  state.addOperands({logits, labels});
  auto &properties = state.getOrAddProperties<Properties>();
  properties.axis = builder.getI64IntegerAttr(axis);
  properties.ignore_index = builder.getI64IntegerAttr(ignoreIndex);
  Type element = getGlobalType(logits).getElementType();
  auto rows =
      RankedTensorType::get(withoutDim(getShape(logits), axis), element);
  addResultTypes(builder, state, {rows, rows.clone(accumulatorOf(element))});
}

ShardingRule CrossEntropyOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  auto [all, rows] = addRowFactors(rule, getShape(getLogits()), getAxis());
  rule.operands = {all, rows};
  rule.results = {rows, rows};
  return rule;
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(verifySums(*this, {getLogits(), getLoss()}, "lse", {getLse()})))
    return failure();
  return verifyRows(*this, getLogits(), getAxis(),
                    {getLabels(), getLoss(), getLse()});
}

namespace {
/// The place of a row's logits in a tensor with the classes along `axis`.
struct LogitRows {
  int64_t classes, step;

  LogitRows(const Tensor &logits, int64_t axis)
      : classes(logits.shape[axis]),
        step(numElements(ArrayRef(logits.shape).drop_front(axis + 1))) {}
  int64_t indexOf(int64_t row, int64_t label) const {
    return row / step * classes * step + row % step + label * step;
  }
};
} // namespace

LogicalResult CrossEntropyOp::evaluate(ArrayRef<Tensor> operands,
                                       MutableArrayRef<Tensor> results) {
  LogitRows rows(operands[0], getAxis());
  int64_t classes = rows.classes;
  for (int64_t row = 0, count = operands[1].size(); row < count; ++row) {
    auto logit = [&](int64_t i) {
      return operands[0].floats[rows.indexOf(row, i)];
    };
    double largest = -INFINITY, total = 0;
    for (int64_t i = 0; i < classes; ++i)
      largest = maximum(largest, logit(i));
    for (int64_t i = 0; i < classes; ++i)
      total += std::exp(logit(i) - largest);
    double lse = largest + std::log(total);
    int64_t label = operands[1].integers[row];
    bool inside = label >= 0 && label < classes;
    results[0].floats[row] = label == static_cast<int64_t>(getIgnoreIndex())
                                 ? 0
                                 : lse - (inside ? logit(label) : 0);
    results[1].floats[row] = lse;
  }
  return success();
}

FailureOr<SmallVector<Value>>
CrossEntropyOp::buildGradient(OpBuilder &builder,
                              ArrayRef<Value> resultGradients,
                              ArrayRef<bool> needed) {
  if (!needed[0])
    return SmallVector<Value>(2);
  Value gradient;
  if (resultGradients[0])
    gradient = CrossEntropyGradOp::create(
        builder, getLoc(), getLogits().getType(), resultGradients[0],
        getLogits(), getLabels(), getLse(), getAxis(), getIgnoreIndex());
  if (resultGradients[1]) { // the gradient of lse is the softmax
    Parts parts(builder, getLoc());
    auto spread = [&](Value rows) {
      return parts.broadcast(rows, getShape(getLogits()), getAxis());
    };
    Type element = getGlobalType(getLogits()).getElementType();
    Value logits = parts.inType(getLogits(), accumulatorOf(element));
    Value softmax = parts.exp(parts.sub(logits, spread(getLse())));
    Value through =
        parts.inType(parts.mul(spread(resultGradients[1]), softmax), element);
    gradient = gradient ? parts.add(gradient, through) : through;
  }
  return SmallVector<Value>{gradient, Value()};
}

/// True where a label is not ignored.
static Value isCounted(Parts &parts, Value labels, int64_t ignoreIndex) {
  return parts.compare(labels, Comparison::NE,
                       parts.splat(labels, ignoreIndex));
}

SmallVector<Value> CrossEntropyOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value logits = getLogits(), labels = getLabels();
  ArrayRef<int64_t> shape = getShape(logits);
  int64_t axis = getAxis();
  Value largest = parts.reduce(ReductionKind::Max, logits, axis);
  Value powers =
      parts.exp(parts.sub(logits, parts.broadcast(largest, shape, axis)));
  Value lse = parts.add(largest, parts.apply<LogOp>(parts.sum(powers, axis)));
  Value picked = parts.pick(logits, labels, axis);
  // `picked` is subtracted last, so that if it is partial nothing else is
  // reduced with it.
  Value loss = parts.select(isCounted(parts, labels, getIgnoreIndex()),
                            parts.sub(lse, picked), parts.splat(lse, 0));
  return {loss, lse};
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  auto [all, rows] = addRowFactors(rule, getShape(getLogits()), getAxis());
  rule.operands = {rows, all, rows, rows};
  rule.results = {all};
  rule.setPass(ReductionKind::Sum, 0, PartialPass::Alone);
  return rule;
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(verifySums(*this,
                        {getLossGradient(), getLogits(), getLogitsGradient()},
                        "lse", {getLse()})))
    return failure();
  if (getShape(getLogitsGradient()) != getShape(getLogits()))
    return emitOpError("[4] gradients must have the shape of their values");
  return verifyRows(*this, getLogits(), getAxis(),
                    {getLossGradient(), getLabels(), getLse()});
}

LogicalResult CrossEntropyGradOp::evaluate(ArrayRef<Tensor> operands,
                                           MutableArrayRef<Tensor> results) {
  LogitRows rows(operands[1], getAxis());
  for (int64_t row = 0, count = operands[0].size(); row < count; ++row) {
    int64_t label = operands[2].integers[row];
    double gradient = label == static_cast<int64_t>(getIgnoreIndex())
                          ? 0
                          : operands[0].floats[row];
    for (int64_t i = 0; i < rows.classes; ++i) {
      int64_t at = rows.indexOf(row, i);
      results[0].floats[at] =
          gradient *
          (std::exp(operands[1].floats[at] - operands[3].floats[row]) -
           (i == label));
    }
  }
  return success();
}

SmallVector<Value> CrossEntropyGradOp::decompose(OpBuilder &builder) {
  Parts parts(builder, getLoc());
  Value logits = getLogits(), labels = getLabels();
  ArrayRef<int64_t> shape = getShape(logits);
  int64_t axis = getAxis();
  Value softmax =
      parts.exp(parts.sub(logits, parts.broadcast(getLse(), shape, axis)));
  Value classes =
      parts.iota(shape, getGlobalType(labels).getElementType(), axis);
  Value isLabel = parts.compare(classes, Comparison::EQ,
                                parts.broadcast(labels, shape, axis));
  Value onehot = parts.convert(isLabel, getGlobalType(logits).getElementType());
  Value gradient =
      parts.select(isCounted(parts, labels, getIgnoreIndex()),
                   getLossGradient(), parts.splat(getLossGradient(), 0));
  return {parts.mul(parts.broadcast(gradient, shape, axis),
                    parts.sub(softmax, onehot))};
}
