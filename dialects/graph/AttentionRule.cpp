// How attention and its gradient are split over devices.

#include "dialects/graph/Parts.h"
#include "dialects/graph/Random.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

namespace {

/// The factors of an attention op's tensors.
struct AttentionFactors {
  DimFactors batch, groups, members, queries, keys, width, valueWidth;
  AttentionSizes sizes;

  /// The kinds say what a split of these dims means; `members` are the heads of
  /// queries that share a head of keys.
  struct Kinds {
    FactorKind batch, groups, members, queries, keys, valueWidth;
  };
  AttentionFactors(ShardingRule &rule, const AttentionSizes &sizes, Kinds kinds)
      : sizes(sizes) {
    auto add = [&](int64_t size, FactorKind kind) {
      return addFactors(rule, size, kind)[0];
    };
    batch = add(sizes.batch, kinds.batch);
    groups = add(sizes.groups, kinds.groups);
    members = add(sizes.heads / sizes.groups, kinds.members);
    queries = add(sizes.queries, kinds.queries);
    keys = add(sizes.keys, kinds.keys);
    width = add(sizes.width, FactorKind::Composite);
    valueWidth = add(sizes.valueWidth, kinds.valueWidth);
  }
  DimFactors heads() const {
    DimFactors both = groups;
    llvm::append_range(both, members);
    return both;
  }
  TensorFactors query() const { return {batch, heads(), queries, width}; }
  TensorFactors key() const { return {batch, groups, keys, width}; }
  TensorFactors value() const { return {batch, groups, keys, valueWidth}; }
  TensorFactors result() const { return {batch, heads(), queries, valueWidth}; }
  TensorFactors lse() const { return {batch, heads(), queries}; }
  /// A tensor like the scores, which has some dims once.
  TensorFactors likeScores(Value tensor) const {
    TensorFactors dims{batch, heads(), queries, keys};
    for (auto [dim, size] : llvm::enumerate(getShape(tensor)))
      if (size == 1)
        dims[dim].clear();
    return dims;
  }
  /// The factors of bias and mask, which follow those of other operands.
  template <typename Op>
  void addOptional(Op op, ShardingRule &rule) const {
    unsigned number = rule.operands.size();
    rule.operands.resize(op->getNumOperands());
    for (Value operand : {op.getBias(), op.getMask()})
      if (operand)
        rule.operands[number++] = likeScores(operand);
  }
};

} // namespace

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  constexpr FactorKind parallel = FactorKind::Parallel,
                       composite = FactorKind::Composite;
  // A block of queries needs its position only if attention is causal.
  AttentionFactors factors(rule, getSizes(),
                           {parallel, parallel, parallel,
                            getCausal() ? composite : parallel, composite,
                            parallel});
  rule.operands = {factors.query(), factors.key(), factors.value()};
  factors.addOptional(*this, rule);
  rule.results = {factors.result(), factors.lse()};
  return rule;
}

ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  // Given lse, the queries contribute independently; dP and D are sums over the
  // value width, and all results are linear in them. The keys of a query
  // contribute together: lse is exact enough only for scores of moderate size.
  FactorKind queries =
      getCausal() ? FactorKind::Composite : FactorKind::Reduction;
  // The bias's gradient is a sum over the dims that it has once.
  auto kindOf = [&](int64_t dim) {
    return getBiasGradient() && getShape(getBiasGradient())[dim] == 1
               ? FactorKind::Reduction
               : FactorKind::Parallel;
  };
  AttentionFactors::Kinds kinds;
  kinds.batch = kindOf(0);
  kinds.groups = kindOf(1);
  kinds.members = FactorKind::Reduction;
  kinds.queries = queries;
  kinds.keys = FactorKind::Composite;
  kinds.valueWidth = FactorKind::Reduction;
  AttentionFactors factors(rule, getSizes(), kinds);
  rule.operands = {factors.result(), factors.query(),  factors.key(),
                   factors.value(),  factors.result(), factors.lse()};
  factors.addOptional(*this, rule);
  rule.results = {factors.query(), factors.key(), factors.value()};
  if (getBiasGradient())
    rule.results.push_back(factors.likeScores(getBiasGradient()));
  rule.setPass(ReductionKind::Sum, 0, PartialPass::Alone);
  // The queries add up in the gradients of keys and values. (So do the keys in
  // that of the queries, but the parts of a query need all of its keys.)
  for (int factor : factors.queries)
    rule.factors[factor].addsUp = queries == FactorKind::Composite;
  return rule;
}

/// A device also knows the place of its block of the probabilities.
template <typename Op>
static LogicalResult localizeAttention(Op op, LocalContext &context,
                                       ValueRange operands,
                                       SmallVectorImpl<Value> &results) {
  SmallVector<Value> place;
  if (op.getRate() && !op.getGlobalShape()) {
    // Batch, heads and queries are those of the query, and keys of the key.
    for (int64_t dim = 0; dim < 4; ++dim) {
      OpOperand &operand = dim < 3 ? op.getQueryMutable() : op.getKeyMutable();
      int64_t of = std::min<int64_t>(dim, 2);
      place.push_back(getBlockPlace(
          context, op.getLoc(), sharding::getLayout(operand.get()), of,
          getShape(operands[operand.getOperandNumber()])[of]));
    }
  }
  if (failed(localizeByCloning(op, context, operands, results)))
    return failure();
  if (place.empty())
    return success();
  auto local = cast<Op>(results.back().getDefiningOp());
  local.getCountersMutable().append(place);
  local.setGlobalShape(op.getSizes().getScoreShape());
  return success();
}

LogicalResult AttentionOp::localize(LocalContext &context, ValueRange operands,
                                    SmallVectorImpl<Value> &results) {
  return localizeAttention(*this, context, operands, results);
}

LogicalResult AttentionGradOp::localize(LocalContext &context,
                                        ValueRange operands,
                                        SmallVectorImpl<Value> &results) {
  return localizeAttention(*this, context, operands, results);
}
