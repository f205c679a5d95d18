// The parts of attention and attention_grad, for where no library call or
// layout computes them as a whole.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

namespace {

/// The ops that forward and backward share. Scores and probabilities are
/// [batch, heads, queries, keys].
class AttentionParts : public Parts {
public:
  template <typename Op>
  AttentionParts(OpBuilder &builder, Op op)
      : Parts(builder, op.getLoc()), form(op.getForm()), sizes(op.getSizes()),
        scoreShape(sizes.getScoreShape()), mask(op.getMask()),
        counters(op.getCounters()), hasBias(op.getBias() != nullptr) {
    readVisible();
    readScores(op.getQuery(), op.getKey(), op.getBias());
  }

  /// probabilities times values, or slopes times keys.
  Value timesKeys(Value pairs, Value keys) {
    return sizes.groups == sizes.heads
               ? matmul(pairs, keys, {0, 1}, {0, 1}, 3, 2)
               : merge(matmul(apart(pairs), keys, {0, 1}, {0, 1}, 4, 2));
  }
  /// queries times keys.
  Value pairsOf(Value queries, Value keys) {
    return sizes.groups == sizes.heads
               ? matmul(queries, keys, {0, 1}, {0, 1}, 3, 3)
               : merge(matmul(apart(queries), keys, {0, 1}, {0, 1}, 4, 3));
  }
  /// The sum over the queries of all heads that share a key.
  Value timesQueries(Value pairs, Value queries) {
    return sizes.groups == sizes.heads
               ? matmul(pairs, queries, {0, 1}, {0, 1}, 2, 2)
               : matmul(apart(pairs), apart(queries), {0, 1}, {0, 1}, {2, 3},
                        {2, 3});
  }
  /// exp(scores - lse), and zero where a hidden key has no weight, which
  /// includes a query that sees no key, whose lse is -inf. The selection comes
  /// before exp, so that the derivative of exp is finite everywhere.
  Value probabilities(Value lse) {
    Value shifted = sub(scores, broadcast(lse, scoreShape, 3));
    return exp(hasWeight()
                   ? shifted
                   : select(visible, shifted, splat(scores, -INFINITY)));
  }
  /// log(total), and 0 where no key is visible and total is 0, since log has no
  /// derivative there. Elsewhere total is at least 1.
  Value logOfTotal(Value total) {
    if (!hasWeight())
      total = select(compare(total, Comparison::EQ, splat(total, 0)),
                     splat(total, 1), total);
    return apply<LogOp>(total);
  }
  /// Returns true if the sum of exp(scores - lse) may differ from 1 by more
  /// than rounding: a bias or a number that hidden keys have may be so low, for
  /// all keys of a query, that lse holds nothing but that.
  bool needsSum() const { return hasBias || form.masked != Masked::Zero; }
  /// `pairs` divided by their sums over the keys; zero where a sum is zero.
  Value normalize(Value pairs, Value sums) {
    Value divisors = select(compare(sums, Comparison::EQ, splat(sums, 0)),
                            splat(sums, 1), sums);
    return div(pairs, broadcast(divisors, scoreShape, 3));
  }
  Value largest() {
    return reduce(ReductionKind::Max,
                  hasWeight()
                      ? scores
                      : select(visible, scores, splat(scores, -INFINITY)),
                  3);
  }
  /// Returns what dropout leaves of the probabilities, or of their gradient.
  Value drop(Value pairs) {
    if (!form.rate)
      return pairs;
    auto dropout =
        DropoutOp::create(builder, location, pairs, counters[0], counters[1],
                          counters[2], *form.rate, form.rngId);
    if (!form.globalShape.empty()) {
      dropout.getOffsetsMutable().assign(counters.drop_front(3));
      dropout.setGlobalShape(form.globalShape);
    }
    return dropout;
  }
  /// The gradient of scale * q k, given that of the scores.
  Value throughScores(Value slopes) {
    if (tangent) // 1 - tanh^2
      slopes = mul(slopes, sub(splat(tangent, 1), mul(tangent, tangent)));
    return mul(slopes, form.scale);
  }
  /// Slopes without those of scores that are replaced.
  Value withoutReplaced(Value slopes) {
    return visible && form.masked == Masked::Replace
               ? select(visible, slopes, splat(slopes, 0))
               : slopes;
  }
  /// The sum of slopes over the dims that the bias has once.
  Value sumForBias(Value slopes, RankedTensorType type) {
    SmallVector<int64_t> once;
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (size != scoreShape[dim])
        once.push_back(dim);
    return inShape(once.empty() ? slopes : sum(slopes, once), type.getShape());
  }

private:
  /// True if all keys have a weight.
  bool hasWeight() const { return !visible || form.masked != Masked::Zero; }

  Value inShape(Value value, ArrayRef<int64_t> shape) {
    return getShape(value) == shape
               ? value
               : ReshapeOp::create(builder, location, value, shape).getResult();
  }
  /// [batch, heads, queries, x] as [batch, groups, heads / groups, queries, x].
  Value apart(Value value) {
    return inShape(value,
                   {sizes.batch, sizes.groups, sizes.heads / sizes.groups,
                    sizes.queries, getShape(value)[3]});
  }
  Value merge(Value value) {
    return inShape(
        value, {sizes.batch, sizes.heads, sizes.queries, getShape(value)[4]});
  }
  /// A bias or mask as scores.
  Value spread(Value value) {
    SmallVector<int64_t> shape, dims;
    for (auto [dim, size] : llvm::enumerate(getShape(value)))
      if (size == scoreShape[dim]) {
        shape.push_back(size);
        dims.push_back(dim);
      }
    value = inShape(value, shape);
    return dims.size() == 4 ? value : repeat(value, dims);
  }
  /// `value` with dims `dims` of the scores, along the others.
  Value repeat(Value value, ArrayRef<int64_t> dims) {
    return BroadcastOp::create(builder, location, value, scoreShape, dims);
  }

  void readVisible() {
    Value result = mask;
    if (form.causal) {
      Type index = builder.getI64Type();
      SmallVector<int64_t, 2> shape{sizes.queries, sizes.keys};
      Value key = iota(shape, index, 1);
      Value last =
          add(iota(shape, index, 0), double(sizes.keys - sizes.queries));
      Value below = compare(key, Comparison::LE, last);
      if (form.window)
        below = apply<AndOp>(below, compare(key, Comparison::GT,
                                            add(last, -double(*form.window))));
      below = repeat(below, {2, 3});
      result = mask ? apply<AndOp>(spread(mask), below) : below;
    } else if (mask) {
      result = spread(mask);
    }
    visible = result;
  }

  void readScores(Value query, Value key, Value bias) {
    scores = mul(pairsOf(query, key), form.scale);
    if (form.softcap) {
      tangent = apply<TanhOp>(mul(scores, 1 / *form.softcap));
      scores = mul(tangent, *form.softcap);
    }
    if (bias)
      scores = add(scores, spread(bias));
    if (!visible || form.masked == Masked::Zero)
      return;
    Value fill = splat(scores, form.fill);
    scores = form.masked == Masked::Replace
                 ? select(visible, scores, fill)
                 : add(scores, select(visible, splat(scores, 0), fill));
  }

  AttentionForm form;
  AttentionSizes sizes;
  SmallVector<int64_t, 4> scoreShape;
  Value mask;
  ValueRange counters;
  bool hasBias;
  Value visible; // booleans like the scores; null if no key is hidden
  Value tangent; // of the softcap; null without one
  Value scores;
};

} // namespace

SmallVector<Value> AttentionOp::decompose(OpBuilder &builder) {
  AttentionParts parts(builder, *this);
  Value largest = parts.largest();
  Value weights = parts.probabilities(largest);
  Value total = parts.sum(weights, 3);
  Value lse = parts.add(largest, parts.logOfTotal(total));
  Value probabilities =
      parts.drop(parts.needsSum() ? parts.normalize(weights, total)
                                  : parts.probabilities(lse));
  return {parts.timesKeys(probabilities, getValue()), lse};
}

SmallVector<Value> AttentionGradOp::decompose(OpBuilder &builder) {
  AttentionParts parts(builder, *this);
  Value gradient = getResultGradient();
  Value probabilities = parts.probabilities(getLse());
  if (parts.needsSum())
    probabilities = parts.normalize(probabilities, parts.sum(probabilities, 3));
  Value slopes = parts.drop(parts.pairsOf(gradient, getValue()));
  Value delta = parts.sum(parts.mul(gradient, getResultValue()), 3);
  slopes =
      parts.mul(probabilities,
                parts.sub(slopes, parts.broadcast(delta, getShape(slopes), 3)));
  slopes = parts.withoutReplaced(slopes);
  Value bias;
  if (getBiasGradient())
    bias = parts.sumForBias(slopes, getGlobalType(getBiasGradient()));
  slopes = parts.throughScores(slopes);
  SmallVector<Value> results{
      parts.timesKeys(slopes, getKey()), parts.timesQueries(slopes, getQuery()),
      parts.timesQueries(parts.drop(probabilities), gradient)};
  if (bias)
    results.push_back(bias);
  return results;
}
