// Follows samples through ops: by explicit rules where dims are merged or
// summed, and otherwise by the ops' sharding rules.

#include "compiler/training/BatchFlow.h"

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::ShardingRule;
using sharding::ReductionKind;
using Kind = SampleFlow::Kind;

/// The number of elements per index of dim `dim`.
static int64_t strideOf(ArrayRef<int64_t> shape, int64_t dim) {
  int64_t stride = 1;
  for (int64_t size : shape.drop_front(dim + 1))
    stride *= size;
  return stride;
}

BatchFlow::BatchFlow(func::FuncOp forward) : forward(forward) {
  graph::Boundary boundary(forward);
  for (BlockArgument argument : forward.getArguments())
    if (auto input =
            boundary.getArgument<graph::InputAttr>(argument.getArgNumber());
        input && input.hasBatch() && batch == 0)
      if (ArrayRef<int64_t> shape = graph::getShape(argument); !shape.empty())
        batch = shape[0];
}

SampleFlow BatchFlow::ofArgument(BlockArgument argument) {
  auto input = graph::Boundary(forward).getArgument<graph::InputAttr>(
      argument.getArgNumber());
  if (!input || !input.hasBatch())
    return {};
  ArrayRef<int64_t> shape = graph::getShape(argument);
  if (shape.empty() || shape[0] != batch)
    return {Kind::Unknown};
  return {Kind::Batched, strideOf(shape, 0)};
}

SampleFlow BatchFlow::get(Value value) {
  SmallVector<Operation *> work;
  auto isKnown = [&](Value each) {
    if (flows.contains(each))
      return true;
    if (auto argument = dyn_cast<BlockArgument>(each)) {
      flows[each] = ofArgument(argument);
      return true;
    }
    work.push_back(each.getDefiningOp());
    return false;
  };
  isKnown(value);
  while (!work.empty()) {
    Operation *op = work.back();
    bool isReady = true;
    for (Value operand : op->getOperands())
      isReady &= isKnown(operand);
    if (!isReady)
      continue;
    work.pop_back();
    if (!flows.contains(op->getResult(0)))
      compute(op);
  }
  return flows.lookup(value);
}

void BatchFlow::compute(Operation *op) {
  for (auto [result, flow] : llvm::zip_equal(op->getResults(), through(op))) {
    // With a batch of one sample, a scalar computed from it is the sum over
    // samples.
    if (batch == 1 && flow.kind == Kind::Batched &&
        graph::getShape(result).empty())
      flow = {Kind::Sum};
    flows[result] = flow;
  }
}

SmallVector<SampleFlow> BatchFlow::through(Operation *op) {
  std::optional<SampleFlow> batched;
  bool isFree = true, isPairs = false;
  for (Value operand : op->getOperands()) {
    SampleFlow flow = flows.lookup(operand);
    isFree &= flow.kind == Kind::Free;
    isPairs |= flow.kind == Kind::Pairs;
    if (flow.isBatched() && !batched)
      batched = flow;
  }
  auto all = [&](SampleFlow flow) {
    return SmallVector<SampleFlow>(op->getNumResults(), flow);
  };
  if (isFree)
    return all({});
  if (isPairs)
    return all({Kind::Pairs});
  if (!batched)
    return all(ofSums(op));
  if (isa<graph::ReshapeOp>(op))
    return all(throughReshape(op, *batched));
  if (isa<graph::BroadcastOp, graph::TransposeOp>(op))
    return all(throughMovedDims(op, *batched));
  if (isa<graph::ReduceOp>(op))
    return all(throughReduce(op, *batched));
  if (op->hasTrait<graph::Elementwise>())
    return all(throughElementwise(op, *batched));
  if (std::optional<SampleFlow> flow = throughParts(op, *batched))
    return all(*flow);
  if (isa<graph::GraphOp>(op))
    return throughRule(op);
  return all({Kind::Unknown});
}

std::optional<int64_t> BatchFlow::findDim(Value value) {
  SampleFlow flow = get(value);
  return flow.kind == Kind::Batched ? findDim(graph::getShape(value), flow)
                                    : std::nullopt;
}

std::optional<int64_t> BatchFlow::findDim(ArrayRef<int64_t> shape,
                                          SampleFlow flow) const {
  std::optional<int64_t> found;
  for (int64_t dim = 0, rank = shape.size(); dim < rank; ++dim) {
    int64_t inner = strideOf(shape, dim);
    if (flow.kind == Kind::Spread) {
      if (inner == flow.stride && shape[dim] != 1)
        return dim;
      continue;
    }
    if (inner == 0 || flow.stride % inner != 0 ||
        (inner * shape[dim]) % (flow.stride * batch) != 0)
      continue;
    // With a batch of one sample, prefer a dim of size 1.
    if (!found || (shape[dim] == 1 && shape[*found] != 1))
      found = dim;
  }
  return found;
}

SampleFlow BatchFlow::moved(ArrayRef<int64_t> fromShape, int64_t from,
                            SampleFlow flow, ArrayRef<int64_t> toShape,
                            int64_t to) {
  return {flow.kind,
          flow.stride / strideOf(fromShape, from) * strideOf(toShape, to)};
}

SampleFlow BatchFlow::throughReshape(Operation *op, SampleFlow batched) {
  // A reshape keeps the order of the elements.
  ArrayRef<int64_t> from = graph::getShape(op->getOperand(0)),
                    to = graph::getShape(op->getResult(0));
  if (batch == 1 && batched.kind == Kind::Batched && to.empty())
    return {Kind::Sum};
  std::optional<int64_t> dim = findDim(to, batched);
  if (dim && batched.kind == Kind::Spread) {
    std::optional<int64_t> before = findDim(from, batched);
    if (!before || from[*before] != to[*dim])
      return {Kind::Unknown};
  }
  return dim ? batched : SampleFlow{Kind::Unknown};
}

SampleFlow BatchFlow::throughMovedDims(Operation *op, SampleFlow batched) {
  ArrayRef<int64_t> from = graph::getShape(op->getOperand(0)),
                    to = graph::getShape(op->getResult(0));
  std::optional<int64_t> dim = findDim(from, batched);
  if (!dim)
    return {Kind::Unknown};
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
    return moved(from, *dim, batched, to, broadcast.getDims()[*dim]);
  ArrayRef<int64_t> order = cast<graph::TransposeOp>(op).getPermutation();
  return moved(from, *dim, batched, to,
               llvm::find(order, *dim) - order.begin());
}

SampleFlow BatchFlow::throughReduce(Operation *op, SampleFlow batched) {
  auto reduce = cast<graph::ReduceOp>(op);
  ArrayRef<int64_t> from = graph::getShape(reduce.getInput()),
                    to = graph::getShape(reduce.getResult());
  std::optional<int64_t> dim = findDim(from, batched);
  if (!dim)
    return {Kind::Unknown};
  ArrayRef<int64_t> dims = reduce.getDims();
  if (llvm::is_contained(dims, *dim))
    return {reduce.getKind() == ReductionKind::Sum ? Kind::Sum : Kind::Joint};
  int64_t before = llvm::count_if(dims, [&](int64_t d) { return d < *dim; });
  return moved(from, *dim, batched, to, *dim - before);
}

SampleFlow BatchFlow::throughElementwise(Operation *op, SampleFlow batched) {
  ArrayRef<int64_t> shape = graph::getShape(op->getResult(0));
  for (Value operand : op->getOperands()) {
    SampleFlow flow = flows.lookup(operand);
    if (!flow.isBatched() || flow == batched)
      continue;
    // Samples in different dims: the op pairs each sample with each.
    if (flow.kind == batched.kind ||
        findDim(shape, flow) != findDim(shape, batched))
      return {Kind::Pairs};
    batched = flow.kind == Kind::Spread ? flow : batched;
  }
  return batched;
}

std::optional<SampleFlow> BatchFlow::throughParts(Operation *op,
                                                  SampleFlow batched) {
  ArrayRef<int64_t> to = graph::getShape(op->getResult(0));
  if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    ArrayRef<int64_t> from = graph::getShape(slice.getInput());
    std::optional<int64_t> dim = findDim(from, batched);
    if (!dim || from[*dim] == to[*dim])
      return std::nullopt;
    return to[*dim] == 1 ? SampleFlow{Kind::Unknown}
                         : SampleFlow{Kind::Spread, strideOf(to, *dim)};
  }
  auto concat = dyn_cast<graph::ConcatOp>(op);
  if (!concat)
    return std::nullopt;
  int64_t dim = concat.getDim();
  auto liesAlong = [&](Value operand) {
    SampleFlow flow = flows.lookup(operand);
    return flow.kind == Kind::Free ||
           (flow.isBatched() && findDim(graph::getShape(operand), flow) == dim);
  };
  if (!llvm::all_of(concat.getInputs(), liesAlong))
    return std::nullopt;
  return SampleFlow{Kind::Spread, strideOf(to, dim)};
}

/// A factor of a dim, and the number of its indices per sample; 0 if the
/// samples are spread over it.
struct SampleFactor {
  int factor;
  int64_t inner;
};

/// Finds the factor, among those of a dim, whose indices the samples are, if
/// samples are `inner` indices of the dim apart.
static std::optional<SampleFactor> findFactor(const ShardingRule &rule,
                                              ArrayRef<int> factors,
                                              int64_t inner, int64_t batch) {
  int64_t later = 1;
  for (int factor : llvm::reverse(factors)) {
    int64_t size = rule.factors[factor].size;
    if (inner % later == 0 && (later * size) % (inner * batch) == 0)
      return SampleFactor{factor, inner / later};
    later *= size;
  }
  return std::nullopt;
}

SmallVector<SampleFlow> BatchFlow::throughRule(Operation *op) {
  ShardingRule rule = cast<graph::GraphOp>(op).getShardingRule();
  SmallVector<SampleFlow> flows(op->getNumResults(), {Kind::Unknown});
  std::optional<SampleFactor> samples;
  std::optional<int64_t> unitDim;
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    SampleFlow flow = this->flows.lookup(operand);
    if (!flow.isBatched())
      continue;
    ArrayRef<int64_t> shape = graph::getShape(operand);
    std::optional<int64_t> dim = findDim(shape, flow);
    if (!dim)
      return flows;
    if (shape[*dim] == 1) { // a dim of size 1 has no factor
      unitDim = unitDim.value_or(*dim);
      continue;
    }
    ArrayRef<int> factors = rule.operands[number][*dim];
    std::optional<SampleFactor> found;
    if (flow.kind == Kind::Batched)
      found =
          findFactor(rule, factors, flow.stride / strideOf(shape, *dim), batch);
    else if (factors.size() == 1)
      found = SampleFactor{factors[0], 0};
    if (!found)
      return flows;
    if (!samples) {
      samples = found;
    } else if (samples->factor != found->factor) {
      // If a result has both factors, it pairs each sample with each.
      for (auto [result, each] : llvm::enumerate(flows))
        if (rule.resultHas(result, samples->factor) &&
            rule.resultHas(result, found->factor))
          each = {Kind::Pairs};
      return flows;
    } else if (samples->inner != found->inner) {
      samples->inner = 0;
    }
  }
  for (auto [number, flow] : llvm::enumerate(flows)) {
    ArrayRef<int64_t> shape = graph::getShape(op->getResult(number));
    auto isUnit = [&](int64_t dim) {
      return dim < static_cast<int64_t>(shape.size()) && shape[dim] == 1;
    };
    if (!samples) { // one sample: it stays in its dim, or moves to dim 0
      for (int64_t dim : {*unitDim, int64_t(0)})
        if (isUnit(dim) && flow.kind != Kind::Batched)
          flow = {Kind::Batched, strideOf(shape, dim)};
      continue;
    }
    // If the factor needs neighbours or whole dims, as the steps of a scan do,
    // a sample's part may depend on other samples.
    using graph::FactorKind;
    if (FactorKind kind = rule.factors[samples->factor].kind;
        kind == FactorKind::Halo || kind == FactorKind::Replicated)
      continue;
    for (auto [dim, factors] : llvm::enumerate(rule.results[number])) {
      int64_t later = strideOf(shape, dim);
      for (int factor : llvm::reverse(factors)) {
        if (factor == samples->factor && samples->inner != 0)
          flow = {Kind::Batched, later * samples->inner};
        else if (factor == samples->factor && factors.size() == 1)
          flow = {Kind::Spread, later};
        later *= rule.factors[factor].size;
      }
    }
    const graph::Factor &factor = rule.factors[samples->factor];
    if (!rule.resultHas(number, samples->factor) &&
        factor.kind == graph::FactorKind::Reduction)
      flow = {factor.reduction == ReductionKind::Sum ? Kind::Sum : Kind::Joint};
  }
  return flows;
}

SampleFlow BatchFlow::ofSums(Operation *op) {
  Type type = graph::getGlobalType(op->getResult(0)).getElementType();
  SmallVector<unsigned> sums;
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    Kind kind = flows.lookup(operand).kind;
    if (kind == Kind::Unknown)
      return {Kind::Unknown};
    if (kind == Kind::Joint)
      return {Kind::Joint};
    if (kind == Kind::Sum)
      sums.push_back(number);
  }
  // Conversion is exact for integer counts, and rounds sums of floats only
  // once.
  if (auto convert = dyn_cast<graph::ConvertOp>(op)) {
    Type from = graph::getGlobalType(convert.getInput()).getElementType();
    bool isExact =
        isa<FloatType>(type) || (isa<IntegerType>(from) && !type.isInteger(1));
    return {isExact ? Kind::Sum : Kind::Joint};
  }
  auto graphOp = dyn_cast<graph::GraphOp>(op);
  if (!graphOp || (isa<graph::DivOp>(op) && !isa<FloatType>(type)))
    return {graphOp ? Kind::Joint : Kind::Unknown};
  // An op that passes partial sums is linear in those operands.
  ShardingRule rule = graphOp.getShardingRule();
  bool isLinear = true;
  for (unsigned number = 0; number < op->getNumOperands(); ++number) {
    graph::PartialPass pass = rule.getPass(ReductionKind::Sum, number);
    bool isSum = llvm::is_contained(sums, number);
    isLinear &=
        isSum ? pass != graph::PartialPass::None &&
                    (pass != graph::PartialPass::Alone || sums.size() == 1)
              : pass != graph::PartialPass::Together;
  }
  return {isLinear ? Kind::Sum : Kind::Joint};
}
