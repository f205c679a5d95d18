// attention and attention_grad.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

namespace {

/// The sizes batch, heads, queries, keys, width, value width.
struct Sizes {
  Sizes(ArrayRef<int64_t> query, ArrayRef<int64_t> value)
      : batch(query[0]), heads(query[1]), queries(query[2]), keys(value[2]),
        width(query[3]), valueWidth(value[3]) {}
  int64_t batch, heads, queries, keys, width, valueWidth;
};

/// Which keys the queries of one head see.
class Visibility {
public:
  Visibility(const Sizes &sizes, const Tensor *mask, bool causal)
      : sizes(sizes), mask(mask), causal(causal) {}
  bool operator()(int64_t head, int64_t query, int64_t key) const {
    if (causal && key > query + sizes.keys - sizes.queries)
      return false;
    if (!mask)
      return true;
    int64_t row = mask->getRank() == 4 ? head * sizes.queries + query : query;
    return mask->integers[row * sizes.keys + key];
  }

private:
  const Sizes &sizes;
  const Tensor *mask;
  bool causal;
};

/// The factors of an attention op's tensors.
struct AttentionFactors {
  DimFactors batch, heads, queries, keys, width, valueWidth;

  /// `queryKind` and the others say what a split of these dims means.
  AttentionFactors(ShardingRule &rule, const Sizes &sizes, FactorKind queryKind,
                   FactorKind keyKind, FactorKind valueKind) {
    auto add = [&](int64_t size, FactorKind kind) {
      return addFactors(rule, size, kind)[0];
    };
    batch = add(sizes.batch, FactorKind::Parallel);
    heads = add(sizes.heads, FactorKind::Parallel);
    queries = add(sizes.queries, queryKind);
    keys = add(sizes.keys, keyKind);
    width = add(sizes.width, FactorKind::Composite);
    valueWidth = add(sizes.valueWidth, valueKind);
  }
  TensorFactors query() const { return {batch, heads, queries, width}; }
  TensorFactors key() const { return {batch, heads, keys, width}; }
  TensorFactors value() const { return {batch, heads, keys, valueWidth}; }
  TensorFactors result() const { return {batch, heads, queries, valueWidth}; }
  TensorFactors lse() const { return {batch, heads, queries}; }
  TensorFactors mask(int64_t rank) const {
    return rank == 4 ? TensorFactors{batch, heads, queries, keys}
                     : TensorFactors{queries, keys};
  }
};

/// The ops that forward and backward share.
class AttentionParts : public Parts {
public:
  AttentionParts(OpBuilder &builder, Location location, const Sizes &sizes)
      : Parts(builder, location), sizes(sizes),
        scoreShape{sizes.batch, sizes.heads, sizes.queries, sizes.keys} {}

  /// scale * q k^T: [batch, heads, queries, keys].
  Value scores(Value query, Value key, double scale) {
    return mul(matmul(query, key, {0, 1}, {0, 1}, 3, 3), scale);
  }
  /// The keys that each query sees, as booleans; null if it sees all.
  Value visible(Value mask, bool causal) {
    Value result = mask;
    if (causal) {
      Type index = builder.getI64Type();
      SmallVector<int64_t, 2> shape{sizes.queries, sizes.keys};
      Value last =
          add(iota(shape, index, 0), double(sizes.keys - sizes.queries));
      Value below = compare(iota(shape, index, 1), Comparison::LE, last);
      if (mask && getShape(mask).size() == 4)
        below = broadcast(below, scoreShape, {0, 1});
      result = mask ? apply<AndOp>(mask, below) : below;
    }
    if (result && getShape(result).size() == 2)
      result = broadcast(result, scoreShape, {0, 1});
    return result;
  }
  Value where(Value visible, Value scores, double other) {
    return visible ? select(visible, scores, splat(scores, other)) : scores;
  }
  /// exp(scores - lse), and zero where a key is not visible, which includes a
  /// query that sees no key, whose lse is -inf. The selection comes before exp,
  /// so that the derivative of exp is finite everywhere.
  Value probabilities(Value scores, Value lse, Value visible) {
    Value shifted = sub(scores, broadcast(lse, scoreShape, 3));
    return exp(where(visible, shifted, -INFINITY));
  }
  /// log(total), and 0 where no key is visible and total is 0, since log has no
  /// derivative there. Elsewhere total is at least 1.
  Value logOfTotal(Value total, Value visible) {
    Value zero = splat(total, 0);
    if (visible)
      total =
          select(compare(total, Comparison::EQ, zero), splat(total, 1), total);
    return apply<LogOp>(total);
  }

  Sizes sizes;
  SmallVector<int64_t, 4> scoreShape;
};

} // namespace

static LogicalResult verifyAttention(Operation *op, Value query, Value key,
                                     Value value, Value result, Value lse,
                                     Value mask) {
  for (Value operand : {query, key, value, result})
    if (getShape(operand).size() != 4)
      return op->emitOpError("[2] query, key, value and result have the dims "
                             "[batch, heads, sequence, width]; one has [")
             << getShape(operand) << "]";
  Sizes sizes(getShape(query), getShape(value));
  auto check = [&](StringRef name, Value operand,
                   ArrayRef<int64_t> shape) -> LogicalResult {
    if (operand && getShape(operand) != shape)
      return op->emitOpError("[3] ")
             << name << " has dims [" << getShape(operand)
             << "] where the others make it [" << shape << "]";
    return success();
  };
  SmallVector<int64_t> square{sizes.batch, sizes.heads, sizes.queries,
                              sizes.keys};
  ArrayRef<int64_t> rows(square);
  if (mask && getShape(mask).size() == 2)
    rows = rows.drop_front(2);
  return failure(
      failed(check("key", key,
                   {sizes.batch, sizes.heads, sizes.keys, sizes.width})) ||
      failed(check("value", value,
                   {sizes.batch, sizes.heads, sizes.keys, sizes.valueWidth})) ||
      failed(
          check("result", result,
                {sizes.batch, sizes.heads, sizes.queries, sizes.valueWidth})) ||
      failed(check("lse", lse, {sizes.batch, sizes.heads, sizes.queries})) ||
      failed(check("mask", mask, rows)));
}

void AttentionOp::build(OpBuilder &builder, OperationState &state, Value query,
                        Value key, Value value, Value mask, double scale,
                        bool causal) {
  state.addOperands({query, key, value});
  if (mask)
    state.addOperands(mask);
  auto &properties = state.getOrAddProperties<Properties>();
  properties.scale = builder.getF64FloatAttr(scale);
  properties.causal = builder.getBoolAttr(causal);
  Sizes sizes(getShape(query), getShape(value));
  Type element = getGlobalType(query).getElementType();
  addResultTypes(builder, state,
                 {RankedTensorType::get({sizes.batch, sizes.heads,
                                         sizes.queries, sizes.valueWidth},
                                        element),
                  RankedTensorType::get(
                      {sizes.batch, sizes.heads, sizes.queries}, element)});
}

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  // A block of queries needs its position only if attention is causal.
  AttentionFactors factors(
      rule, Sizes(getShape(getQuery()), getShape(getValue())),
      getCausal() ? FactorKind::Composite : FactorKind::Parallel,
      FactorKind::Composite, FactorKind::Parallel);
  rule.operands = {factors.query(), factors.key(), factors.value()};
  if (getMask())
    rule.operands.push_back(factors.mask(getShape(getMask()).size()));
  rule.results = {factors.result(), factors.lse()};
  return rule;
}

LogicalResult AttentionOp::verify() {
  if (failed(verifySameElements(
          *this, {getQuery(), getKey(), getValue(), getResult(), getLse()})))
    return failure();
  return verifyAttention(*this, getQuery(), getKey(), getValue(), getResult(),
                         getLse(), getMask());
}

Cost AttentionOp::getCost() {
  Sizes sizes(getShape(getQuery()), getShape(getValue()));
  Cost cost = elementwiseCost(*this);
  // This counts all pairs, visible or not.
  cost.flops = 2 * sizes.batch * sizes.heads * sizes.queries * sizes.keys *
               (sizes.width + sizes.valueWidth);
  return cost;
}

static double dot(const double *x, const double *y, int64_t count) {
  double result = 0;
  for (int64_t i = 0; i < count; ++i)
    result += x[i] * y[i];
  return result;
}

LogicalResult AttentionOp::evaluate(ArrayRef<Tensor> operands,
                                    MutableArrayRef<Tensor> results) {
  Sizes sizes(operands[0].shape, operands[2].shape);
  Visibility visible(sizes, getMask() ? &operands[3] : nullptr, getCausal());
  double scale = getScale().convertToDouble();
  std::vector<double> scores(sizes.keys);
  for (int64_t head = 0; head < sizes.batch * sizes.heads; ++head)
    for (int64_t query = 0; query < sizes.queries; ++query) {
      int64_t row = head * sizes.queries + query;
      double largest = -INFINITY, total = 0;
      for (int64_t key = 0; key < sizes.keys; ++key) {
        if (!visible(head, query, key))
          continue;
        int64_t column = head * sizes.keys + key;
        scores[key] =
            scale * dot(&operands[0].floats[row * sizes.width],
                        &operands[1].floats[column * sizes.width], sizes.width);
        largest = maximum(largest, scores[key]);
      }
      for (int64_t key = 0; key < sizes.keys; ++key)
        if (visible(head, query, key))
          total += std::exp(scores[key] - largest);
      double lse = largest + std::log(total);
      results[1].floats[row] = lse;
      for (int64_t key = 0; key < sizes.keys; ++key) {
        if (!visible(head, query, key))
          continue;
        double probability = std::exp(scores[key] - lse);
        int64_t column = head * sizes.keys + key;
        for (int64_t i = 0; i < sizes.valueWidth; ++i)
          results[0].floats[row * sizes.valueWidth + i] +=
              probability * operands[2].floats[column * sizes.valueWidth + i];
      }
    }
  return success();
}

FailureOr<SmallVector<Value>>
AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                           ArrayRef<bool> needed) {
  if (resultGradients[1])
    return emitOpError(
        "has no gradient through lse, which is a residual of its backward");
  SmallVector<Value> operands{resultGradients[0], getQuery(),  getKey(),
                              getValue(),         getResult(), getLse()};
  if (getMask())
    operands.push_back(getMask());
  auto gradient = AttentionGradOp::create(
      builder, getLoc(),
      TypeRange{getQuery().getType(), getKey().getType(), getValue().getType()},
      operands, (*this)->getAttrs());
  SmallVector<Value> gradients(gradient.getResults());
  gradients.resize(getNumOperands());
  return gradients;
}

SmallVector<Value> AttentionOp::decompose(OpBuilder &builder) {
  AttentionParts parts(builder, getLoc(),
                       Sizes(getShape(getQuery()), getShape(getValue())));
  Value scores =
      parts.scores(getQuery(), getKey(), getScale().convertToDouble());
  Value visible = parts.visible(getMask(), getCausal());
  Value largest = parts.reduce(ReductionKind::Max,
                               parts.where(visible, scores, -INFINITY), 3);
  Value total = parts.sum(parts.probabilities(scores, largest, visible), 3);
  Value lse = parts.add(largest, parts.logOfTotal(total, visible));
  Value probabilities = parts.probabilities(scores, lse, visible);
  return {parts.matmul(probabilities, getValue(), {0, 1}, {0, 1}, 3, 2), lse};
}

ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  // Given lse, each (query, key) pair contributes independently; dP and D are
  // sums over the value width, and all results are linear in them.
  FactorKind pairs =
      getCausal() ? FactorKind::Composite : FactorKind::Reduction;
  AttentionFactors factors(rule,
                           Sizes(getShape(getQuery()), getShape(getValue())),
                           pairs, pairs, FactorKind::Reduction);
  rule.operands = {factors.result(), factors.query(),  factors.key(),
                   factors.value(),  factors.result(), factors.lse()};
  if (getMask())
    rule.operands.push_back(factors.mask(getShape(getMask()).size()));
  rule.results = {factors.query(), factors.key(), factors.value()};
  rule.setPass(ReductionKind::Sum, 0, PartialPass::Alone);
  return rule;
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifySameElements(*this, {getResultGradient(), getQuery(),
                                        getKey(), getValue(), getResultValue(),
                                        getLse(), getQueryGradient(),
                                        getKeyGradient(), getValueGradient()})))
    return failure();
  if (getShape(getResultGradient()) != getShape(getResultValue()) ||
      getShape(getQueryGradient()) != getShape(getQuery()) ||
      getShape(getKeyGradient()) != getShape(getKey()) ||
      getShape(getValueGradient()) != getShape(getValue()))
    return emitOpError("[4] gradients must have the shape of their values");
  return verifyAttention(*this, getQuery(), getKey(), getValue(),
                         getResultValue(), getLse(), getMask());
}

Cost AttentionGradOp::getCost() {
  Sizes sizes(getShape(getQuery()), getShape(getValue()));
  Cost cost = elementwiseCost(*this);
  // Recomputed scores, dP, and the three gradients.
  cost.flops = 2 * sizes.batch * sizes.heads * sizes.queries * sizes.keys *
               (3 * sizes.width + 2 * sizes.valueWidth);
  return cost;
}

LogicalResult AttentionGradOp::evaluate(ArrayRef<Tensor> operands,
                                        MutableArrayRef<Tensor> results) {
  Sizes sizes(operands[1].shape, operands[3].shape);
  Visibility visible(sizes, getMask() ? &operands[6] : nullptr, getCausal());
  double scale = getScale().convertToDouble();
  for (int64_t head = 0; head < sizes.batch * sizes.heads; ++head)
    for (int64_t query = 0; query < sizes.queries; ++query) {
      int64_t row = head * sizes.queries + query;
      const double *gradient = &operands[0].floats[row * sizes.valueWidth];
      const double *q = &operands[1].floats[row * sizes.width];
      double *dq = &results[0].floats[row * sizes.width];
      double delta = dot(gradient, &operands[4].floats[row * sizes.valueWidth],
                         sizes.valueWidth);
      for (int64_t key = 0; key < sizes.keys; ++key) {
        if (!visible(head, query, key))
          continue;
        int64_t column = head * sizes.keys + key;
        const double *k = &operands[2].floats[column * sizes.width];
        const double *v = &operands[3].floats[column * sizes.valueWidth];
        double *dk = &results[1].floats[column * sizes.width];
        double *dv = &results[2].floats[column * sizes.valueWidth];
        double probability =
            std::exp(scale * dot(q, k, sizes.width) - operands[5].floats[row]);
        double slope =
            scale * probability * (dot(gradient, v, sizes.valueWidth) - delta);
        for (int64_t i = 0; i < sizes.width; ++i) {
          dq[i] += slope * k[i];
          dk[i] += slope * q[i];
        }
        for (int64_t i = 0; i < sizes.valueWidth; ++i)
          dv[i] += probability * gradient[i];
      }
    }
  return success();
}

SmallVector<Value> AttentionGradOp::decompose(OpBuilder &builder) {
  AttentionParts parts(builder, getLoc(),
                       Sizes(getShape(getQuery()), getShape(getValue())));
  double scale = getScale().convertToDouble();
  Value scores = parts.scores(getQuery(), getKey(), scale);
  Value visible = parts.visible(getMask(), getCausal());
  Value probabilities = parts.probabilities(scores, getLse(), visible);
  Value gradient = getResultGradient();
  Value slopes = parts.matmul(gradient, getValue(), {0, 1}, {0, 1}, 3, 3);
  Value delta = parts.sum(parts.mul(gradient, getResultValue()), 3);
  slopes =
      parts.mul(probabilities,
                parts.sub(slopes, parts.broadcast(delta, parts.scoreShape, 3)));
  slopes = parts.mul(slopes, scale);
  return {parts.matmul(slopes, getKey(), {0, 1}, {0, 1}, 3, 2),
          parts.matmul(slopes, getQuery(), {0, 1}, {0, 1}, 2, 2),
          parts.matmul(probabilities, gradient, {0, 1}, {0, 1}, 2, 2)};
}
