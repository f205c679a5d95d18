// The sharding rule of a scan: it is split along dims that its whole body
// computes block by block, usually the batch.

#include "dialects/graph/Parts.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

namespace {

/// Classes of dims of the body's values: dims that share a factor of an op, and
/// dims that an iteration hands on to the next, are in one class.
class BodyDims {
public:
  explicit BodyDims(ScanOp scan);

  /// Returns true if blocks of the class can be computed independently, in all
  /// ops.
  bool isParallel(Value value, int64_t dim) {
    return !closed.contains(find(value, dim));
  }
  /// The number of the dim's class.
  int find(Value value, int64_t dim) {
    return classes.getLeaderValue(number(value, dim));
  }

private:
  void readOp(GraphOp op);
  void tie(Value left, Value right) {
    for (int64_t d = 0, rank = getShape(left).size(); d < rank; ++d)
      classes.unionSets(number(left, d), number(right, d));
  }
  int number(Value value, int64_t dim) {
    int next = numbers.size();
    int found = numbers.try_emplace({value, dim}, next).first->second;
    classes.insert(found);
    return found;
  }

  llvm::DenseMap<std::pair<Value, int64_t>, int> numbers;
  llvm::EquivalenceClasses<int> classes;
  llvm::DenseSet<int> closed;
};

} // namespace

BodyDims::BodyDims(ScanOp scan) {
  for (Operation &op : scan.getBody().front().without_terminator())
    readOp(cast<GraphOp>(op));
  for (auto [argument, next] :
       llvm::zip_equal(scan.getCarried(), scan.getYield().getCarry()))
    tie(argument, next);
  // A dim in a class with a closed dim is closed, and so are two dims of one
  // value in one class, which cannot be split alike.
  llvm::DenseSet<int> leaders;
  for (int each : closed)
    leaders.insert(classes.getLeaderValue(each));
  llvm::DenseSet<std::pair<Value, int>> seen;
  for (auto [dim, own] : numbers)
    if (!seen.insert({dim.first, classes.getLeaderValue(own)}).second)
      leaders.insert(classes.getLeaderValue(own));
  closed = std::move(leaders);
}

/// Ties the dims of each factor. A dim is closed if it needs more than the
/// blocks that each device has: sums, borders, indices, decomposed dims.
void BodyDims::readOp(GraphOp op) {
  ShardingRule rule = op.getShardingRule();
  SmallVector<std::optional<int>> first(rule.factors.size());
  auto read = [&](Value value, const TensorFactors &dims) {
    for (auto [d, factors] : llvm::enumerate(dims)) {
      int own = number(value, d);
      for (int factor : factors) {
        if (factors.size() > 1 ||
            rule.factors[factor].kind != FactorKind::Parallel)
          closed.insert(own);
        if (first[factor])
          classes.unionSets(*first[factor], own);
        else
          first[factor] = own;
      }
    }
  };
  for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    read(operand, dims);
  for (auto [result, dims] : llvm::zip_equal(op->getResults(), rule.results))
    read(result, dims);
}

/// Calls `visit` with each tensor of the op, the body's value that it is or
/// contains, and 1 if dim 0 counts iterations, else 0.
static void
forEachTensor(ScanOp scan,
              llvm::function_ref<void(bool isResult, unsigned number,
                                      Value inside, unsigned skipped)>
                  visit) {
  unsigned numOf = scan.getOf().size(), numStacks = scan.getNumStacks();
  for (auto [i, argument] : llvm::enumerate(scan.getBody().getArguments()))
    visit(false, i, argument, i < numOf);
  for (auto [i, value] : llvm::enumerate(scan.getYield().getOperands()))
    visit(true, i, value, i < numStacks);
}

ShardingRule ScanOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  BodyDims dims(*this);
  llvm::DenseMap<int, int> factorOf; // by class
  int iterations =
      getCount() > 1 ? rule.addFactor(getCount(), FactorKind::Replicated) : -1;
  forEachTensor(*this, [&](bool isResult, unsigned number, Value inside,
                           unsigned skipped) {
    TensorFactors &factors =
        isResult ? rule.results[number] : rule.operands[number];
    if (skipped && iterations >= 0)
      factors[0] = {iterations};
    for (auto [d, size] : llvm::enumerate(getShape(inside))) {
      if (size == 1)
        continue;
      if (!dims.isParallel(inside, d)) {
        // It gets a factor of its own, since a weight may have a class twice.
        factors[skipped + d] = {rule.addFactor(size, FactorKind::Replicated)};
        continue;
      }
      auto [entry, isNew] = factorOf.try_emplace(dims.find(inside, d), 0);
      if (isNew)
        entry->second = rule.addFactor(size);
      factors[skipped + d] = {entry->second};
    }
  });
  return rule;
}

/// Builds the body for one device: each op by its own `localize`, with the
/// layouts that follow from those of the scan.
LogicalResult ScanOp::localize(LocalContext &context, ValueRange operands,
                               SmallVectorImpl<Value> &results) {
  sharding::LayoutAttr any;
  for (Value value : llvm::concat<Value>(getOperands(), getResults()))
    if (sharding::LayoutAttr layout = sharding::getLayout(value))
      any = layout;
  if (!any)
    return localizeByCloning(*this, context, operands, results);

  BodyDims dims(*this);
  llvm::DenseMap<int, sharding::DimAttr> layouts; // by class
  bool agree = true;
  forEachTensor(*this, [&](bool isResult, unsigned number, Value inside,
                           unsigned skipped) {
    Value outside = isResult ? Value(getResult(number)) : getOperand(number);
    sharding::LayoutAttr layout = sharding::getLayout(outside);
    for (int64_t d = 0, rank = getShape(inside).size(); d < rank; ++d) {
      sharding::DimAttr dim = layout.getDim(d + skipped);
      // The content of the padding does not matter inside the body.
      dim =
          sharding::DimAttr::get(any.getMesh(), dim.getAxes(), dim.getPadded());
      auto [entry, isNew] = layouts.try_emplace(dims.find(inside, d), dim);
      agree &=
          entry->second == dim && (dim.isWhole() || dims.isParallel(inside, d));
    }
  });
  if (!agree)
    return failure();
  auto lay = [&](Value value, Value original) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<sharding::DimAttr> split;
    sharding::LayoutAttr whole =
        sharding::LayoutAttr::getReplicated(any.getMesh(), type.getRank());
    for (int64_t d = 0; d < type.getRank(); ++d) {
      auto found = layouts.find(dims.find(original, d));
      split.push_back(found == layouts.end() ? whole.getDim(d) : found->second);
    }
    value.setType(sharding::withLayout(
        type, sharding::LayoutAttr::get(any.getMesh(), split)));
  };

  // A copy of the body with layouts, and the local body built from it.
  Block &body = getBody().front();
  IRMapping laid, local;
  Region copy;
  getBody().cloneInto(&copy, laid);
  auto region = std::make_unique<Region>();
  auto *block = new Block;
  region->push_back(block);
  for (BlockArgument argument : body.getArguments()) {
    Value own = laid.lookup<Value>(argument);
    lay(own, argument);
    auto type = cast<RankedTensorType>(own.getType());
    local.map(own, block->addArgument(sharding::getLocalType(type),
                                      argument.getLoc()));
  }
  // Coordinates are computed outside.
  SmallVector<Value> uses(operands.take_back(getUses().size()));
  auto axisIndex = [&](ArrayRef<sharding::AxisRef> axes) -> Value {
    Value index = context.axisIndex(axes);
    auto known = llvm::find(uses, index);
    if (known != uses.end())
      return block->getArgument(block->getNumArguments() - uses.size() +
                                (known - uses.begin()));
    uses.push_back(index);
    return block->addArgument(index.getType(), getLoc());
  };
  OpBuilder builder(getContext());
  builder.setInsertionPointToEnd(block);
  LocalContext inner{builder, axisIndex};
  for (Operation &op : body.without_terminator()) {
    Operation *own = laid.lookup(&op);
    SmallVector<Value> inputs, outputs;
    for (auto [value, original] :
         llvm::zip_equal(own->getResults(), op.getResults()))
      lay(value, original);
    for (Value operand : own->getOperands())
      inputs.push_back(local.lookup(operand));
    if (failed(cast<GraphOp>(own).localize(inner, inputs, outputs)))
      return failure();
    local.map(own->getResults(), outputs);
  }
  auto inside = [&](ValueRange values) {
    return llvm::map_to_vector(
        values, [&](Value value) { return local.lookup(laid.lookup(value)); });
  };
  ScanYieldOp yield = getYield();
  ScanYieldOp::create(builder, yield.getLoc(), inside(yield.getStack()),
                      inside(yield.getCarry()));
  auto scan = ScanOp::create(context.builder, getLoc(), getCount(),
                             getReversed(), operands.take_front(getOf().size()),
                             operands.slice(getOf().size(), getCarry().size()),
                             uses, std::move(region));
  llvm::append_range(results, scan.getResults());
  return success();
}
