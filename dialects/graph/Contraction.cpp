// matmul and reduce.

#include <limits>

#include "dialects/graph/Parts.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

using Gradients = FailureOr<SmallVector<Value>>;

static SmallVector<int64_t> others(int64_t rank, ArrayRef<int64_t> first,
                                   ArrayRef<int64_t> second = {}) {
  SmallVector<int64_t> result;
  for (int64_t d = 0; d < rank; ++d)
    if (!llvm::is_contained(first, d) && !llvm::is_contained(second, d))
      result.push_back(d);
  return result;
}

// Matmul

SmallVector<int64_t> MatmulOp::getLhsFree() {
  return others(getShape(getLhs()).size(), getLhsBatch(), getLhsContract());
}

SmallVector<int64_t> MatmulOp::getRhsFree() {
  return others(getShape(getRhs()).size(), getRhsBatch(), getRhsContract());
}

/// The batch dims, then the remaining dims of each operand.
static SmallVector<int64_t>
productShape(ArrayRef<int64_t> l, ArrayRef<int64_t> r,
             ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch,
             ArrayRef<int64_t> lhsContract, ArrayRef<int64_t> rhsContract) {
  SmallVector<int64_t> shape;
  for (int64_t d : lhsBatch)
    shape.push_back(l[d]);
  for (int64_t d : others(l.size(), lhsBatch, lhsContract))
    shape.push_back(l[d]);
  for (int64_t d : others(r.size(), rhsBatch, rhsContract))
    shape.push_back(r[d]);
  return shape;
}

void MatmulOp::build(OpBuilder &builder, OperationState &state, Value lhs,
                     Value rhs, ArrayRef<int64_t> lhsBatch,
                     ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract,
                     ArrayRef<int64_t> rhsContract, Type resultElement) {
  SmallVector<int64_t> shape =
      productShape(getShape(lhs), getShape(rhs), lhsBatch, rhsBatch,
                   lhsContract, rhsContract);
  if (!resultElement)
    resultElement = getElementTypeOrSelf(lhs);
  build(builder, state, RankedTensorType::get(shape, resultElement), lhs, rhs,
        lhsBatch, rhsBatch, lhsContract, rhsContract);
}

LogicalResult MatmulOp::verify() {
  if (failed(verifyProductElements(*this, getLhs(), getRhs())))
    return failure();
  ArrayRef<int64_t> l = getShape(getLhs()), r = getShape(getRhs());
  auto check = [&](StringRef what, ArrayRef<int64_t> left,
                   ArrayRef<int64_t> right) -> LogicalResult {
    if (left.size() != right.size())
      return emitOpError("[2] ")
             << what << " " << left.size() << " dims of the left operand with "
             << right.size() << " of the right one";
    for (auto [i, j] : llvm::zip_equal(left, right)) {
      if (i < 0 || i >= static_cast<int64_t>(l.size()) || j < 0 ||
          j >= static_cast<int64_t>(r.size()))
        return emitOpError("[3] ") << what << " dims " << i << " and " << j
                                   << ", which the operands do not have";
      if (l[i] != r[j])
        return emitOpError("[4] ")
               << what << " dims of sizes " << l[i] << " and " << r[j];
    }
    return success();
  };
  if (failed(check("batches", getLhsBatch(), getRhsBatch())) ||
      failed(check("contracts", getLhsContract(), getRhsContract())))
    return failure();
  auto distinct = [](ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
    llvm::SmallDenseSet<int64_t> seen(a.begin(), a.end());
    seen.insert(b.begin(), b.end());
    return seen.size() == a.size() + b.size();
  };
  if (!distinct(getLhsBatch(), getLhsContract()) ||
      !distinct(getRhsBatch(), getRhsContract()))
    return emitOpError("[5] names a dim twice");
  SmallVector<int64_t> shape = productShape(l, r, getLhsBatch(), getRhsBatch(),
                                            getLhsContract(), getRhsContract());
  if (getShape(getResult()) != ArrayRef<int64_t>(shape))
    return emitOpError("[6] has result ")
           << getResult().getType() << ", its operands give the shape ["
           << llvm::interleaved(shape).str() << "]";
  return success();
}

ShardingRule MatmulOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  ArrayRef<int64_t> l = getShape(getLhs()), r = getShape(getRhs());
  int64_t position = 0;
  auto add = [&](int64_t size, FactorKind kind, int64_t left, int64_t right,
                 bool inResult) {
    if (size != 1) {
      int factor = rule.addFactor(size, kind);
      if (left >= 0)
        rule.operands[0][left] = {factor};
      if (right >= 0)
        rule.operands[1][right] = {factor};
      if (inResult)
        rule.results[0][position] = {factor};
    }
    position += inResult;
  };
  for (auto [i, j] : llvm::zip_equal(getLhsBatch(), getRhsBatch()))
    add(l[i], FactorKind::Parallel, i, j, true);
  for (int64_t i : getLhsFree())
    add(l[i], FactorKind::Parallel, i, -1, true);
  for (int64_t j : getRhsFree())
    add(r[j], FactorKind::Parallel, -1, j, true);
  for (auto [i, j] : llvm::zip_equal(getLhsContract(), getRhsContract()))
    add(l[i], FactorKind::Reduction, i, j, false);
  for (unsigned operand : {0, 1})
    rule.setPass(ReductionKind::Sum, operand, PartialPass::Alone);
  return rule;
}

LogicalResult MatmulOp::evaluate(ArrayRef<Tensor> operands,
                                 MutableArrayRef<Tensor> results) {
  const Tensor &lhs = operands[0], &rhs = operands[1];
  SmallVector<int64_t> ls = getStrides(lhs.shape), rs = getStrides(rhs.shape);
  // Loops: batch, left free, right free (the result's dims), then contracted.
  SmallVector<int64_t> sizes, left, right, inner, innerLeft, innerRight;
  for (auto [i, j] : llvm::zip_equal(getLhsBatch(), getRhsBatch())) {
    sizes.push_back(lhs.shape[i]);
    left.push_back(ls[i]);
    right.push_back(rs[j]);
  }
  for (int64_t i : others(lhs.getRank(), getLhsBatch(), getLhsContract())) {
    sizes.push_back(lhs.shape[i]);
    left.push_back(ls[i]);
    right.push_back(0);
  }
  for (int64_t j : others(rhs.getRank(), getRhsBatch(), getRhsContract())) {
    sizes.push_back(rhs.shape[j]);
    left.push_back(0);
    right.push_back(rs[j]);
  }
  SmallVector<std::pair<int64_t, int64_t>> steps;
  for (auto [i, j] : llvm::zip_equal(getLhsContract(), getRhsContract())) {
    inner.push_back(lhs.shape[i]);
    innerLeft.push_back(ls[i]);
    innerRight.push_back(rs[j]);
  }
  auto dot = [](ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
    int64_t result = 0;
    for (auto [i, stride] : llvm::zip_equal(index, strides))
      result += i * stride;
    return result;
  };
  forEachIndex(inner, [&](ArrayRef<int64_t> index) {
    steps.push_back({dot(index, innerLeft), dot(index, innerRight)});
  });
  int64_t to = 0;
  forEachIndex(sizes, [&](ArrayRef<int64_t> index) {
    int64_t a = dot(index, left), b = dot(index, right);
    double sum = 0;
    for (auto [i, j] : steps)
      sum += lhs.floats[a + i] * rhs.floats[b + j];
    results[0].floats[to++] = sum;
  });
  return success();
}

/// The product of the result's gradient with the other operand, contracted over
/// the other operand's free dims and transposed into the order of this
/// operand's dims. If the result has a wider type than the operands, so has its
/// gradient: the product is in that type, and is rounded to the operand's.
static Value operandGradient(OpBuilder &builder, MatmulOp op, Value gradient,
                             bool left) {
  ArrayRef<int64_t> batch = left ? op.getLhsBatch() : op.getRhsBatch();
  ArrayRef<int64_t> otherBatch = left ? op.getRhsBatch() : op.getLhsBatch();
  ArrayRef<int64_t> contract = left ? op.getLhsContract() : op.getRhsContract();
  ArrayRef<int64_t> otherContract =
      left ? op.getRhsContract() : op.getLhsContract();
  SmallVector<int64_t> free = left ? op.getLhsFree() : op.getRhsFree();
  SmallVector<int64_t> otherFree = left ? op.getRhsFree() : op.getLhsFree();
  Parts parts(builder, op.getLoc());
  Type element = getElementTypeOrSelf(op.getLhs());
  Value other = parts.inType(left ? op.getRhs() : op.getLhs(),
                             getElementTypeOrSelf(gradient));
  int64_t batches = batch.size(), leftFree = op.getLhsFree().size();
  // Dims of the gradient: batch, left free, right free.
  auto range = [](int64_t begin, int64_t count) {
    return llvm::to_vector(llvm::seq<int64_t>(begin, begin + count));
  };
  SmallVector<int64_t> gradientBatch = range(0, batches);
  SmallVector<int64_t> gradientOther =
      left ? range(batches + leftFree, otherFree.size())
           : range(batches, otherFree.size());
  // Dims of this operand in the two orders of the product: batch, free (in
  // operand order) and the other operand's contracted dims, in its order; or
  // the latter first, as a weight [inputs, outputs] has them.
  SmallVector<int64_t> contracted(otherContract.begin(), otherContract.end());
  llvm::sort(contracted);
  for (int64_t &d : contracted)
    d = contract[llvm::find(otherContract, d) - otherContract.begin()];
  SmallVector<int64_t> source(batch), swapped(batch);
  llvm::append_range(source, free);
  llvm::append_range(source, contracted);
  llvm::append_range(swapped, contracted);
  llvm::append_range(swapped, free);
  if (!llvm::is_sorted(source) && llvm::is_sorted(swapped))
    return parts.inType(MatmulOp::create(builder, op.getLoc(), other, gradient,
                                         otherBatch, gradientBatch, otherFree,
                                         gradientOther),
                        element);
  Value product =
      MatmulOp::create(builder, op.getLoc(), gradient, other, gradientBatch,
                       otherBatch, gradientOther, otherFree);
  SmallVector<int64_t> permutation(source.size());
  for (auto [position, d] : llvm::enumerate(source))
    permutation[d] = position;
  if (!llvm::is_sorted(permutation))
    product = TransposeOp::create(builder, op.getLoc(), product, permutation);
  return parts.inType(product, element);
}

Gradients MatmulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                  ArrayRef<bool> needed) {
  SmallVector<Value> result(2);
  // The gradient of the smaller operand first, as a rule a weight's: the larger
  // operand, an activation, can be freed before its own gradient is computed.
  bool isRightFirst =
      numElements(getShape(getRhs())) < numElements(getShape(getLhs()));
  for (bool right : {isRightFirst, !isRightFirst})
    if (needed[right])
      result[right] = operandGradient(builder, *this, gradients[0], !right);
  return result;
}

Cost MatmulOp::getCost() {
  Cost cost = elementwiseCost(*this);
  cost.flops = 2 * numElements(getShape(getResult()));
  for (int64_t d : getLhsContract())
    cost.flops *= getShape(getLhs())[d];
  return cost;
}

// Reduce

static SmallVector<int64_t> reducedShape(ArrayRef<int64_t> shape,
                                         ArrayRef<int64_t> dims) {
  return llvm::map_to_vector(others(shape.size(), dims),
                             [&](int64_t d) { return shape[d]; });
}

void ReduceOp::build(OpBuilder &builder, OperationState &state,
                     ReductionKind kind, Value input, ArrayRef<int64_t> dims,
                     bool first) {
  auto type = cast<RankedTensorType>(input.getType());
  build(builder, state,
        RankedTensorType::get(reducedShape(type.getShape(), dims),
                              type.getElementType()),
        kind, input, dims, first);
}

LogicalResult ReduceOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  ArrayRef<int64_t> in = getShape(getInput());
  for (auto [i, d] : llvm::enumerate(getDims()))
    if (d < 0 || d >= static_cast<int64_t>(in.size()) ||
        (i && getDims()[i - 1] >= d))
      return emitOpError(
                 "[2] dims ascend and lie inside the operand's rank of ")
             << in.size();
  SmallVector<int64_t> shape = reducedShape(in, getDims());
  if (getShape(getResult()) != ArrayRef<int64_t>(shape))
    return emitOpError("[3] has result ")
           << getResult().getType() << ", expected the shape ["
           << llvm::interleaved(shape).str() << "]";
  return success();
}

ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  int64_t position = 0;
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    bool reduced = llvm::is_contained(getDims(), d);
    if (size != 1) {
      int factor = rule.addFactor(
          size, reduced ? FactorKind::Reduction : FactorKind::Parallel,
          reduced ? getKind() : ReductionKind::Sum);
      rule.operands[0][d] = {factor};
      if (!reduced)
        rule.results[0][position] = {factor};
    }
    position += !reduced;
  }
  rule.setPass(getKind(), 0, PartialPass::Any);
  return rule;
}

LogicalResult ReduceOp::evaluate(ArrayRef<Tensor> operands,
                                 MutableArrayRef<Tensor> results) {
  const Tensor &input = operands[0];
  Tensor &result = results[0];
  SmallVector<int64_t> kept = others(input.getRank(), getDims());
  SmallVector<int64_t> strides = getStrides(result.shape);
  double identity = sharding::fillValue(sharding::identityFill(getKind()));
  for (int64_t i = 0, n = result.size(); i < n; ++i)
    result.set(i, identity);
  int64_t from = 0;
  forEachIndex(input.shape, [&](ArrayRef<int64_t> index) {
    int64_t to = 0;
    for (auto [d, stride] : llvm::zip_equal(kept, strides))
      to += index[d] * stride;
    auto combine = [&](auto &sum, auto value) {
      sum = getKind() == ReductionKind::Sum   ? sum + value
            : getKind() == ReductionKind::Max ? maximum(sum, value)
                                              : minimum(sum, value);
    };
    if (result.isFloat())
      combine(result.floats[to], input.floats[from++]);
    else
      combine(result.integers[to], input.integers[from++]);
  });
  return success();
}

Gradients ReduceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                  ArrayRef<bool>) {
  ArrayRef<int64_t> shape = getShape(getInput());
  auto spread = [&](Value value) {
    return broadcastOver(builder, getLoc(), value, shape, getDims());
  };
  if (getKind() == ReductionKind::Sum)
    return SmallVector<Value>{spread(gradients[0])};
  if (getFirst()) {
    // The least position among those of the elements equal to the extremum.
    Parts parts(builder, getLoc());
    Type index = builder.getI64Type();
    Value equal =
        parts.compare(getInput(), Comparison::EQ, spread(getResult()));
    Value position;
    int64_t count = 1;
    for (int64_t d : llvm::reverse(getDims())) {
      Value along = parts.iota(shape, index, d);
      position =
          position ? parts.add(position, parts.mul(along, count)) : along;
      count *= shape[d];
    }
    Value candidates =
        parts.select(equal, position, parts.splat(position, count));
    Value chosen = parts.reduce(ReductionKind::Min, candidates, getDims());
    Value isChosen = parts.compare(position, Comparison::EQ, spread(chosen));
    Value gradient = spread(gradients[0]);
    return SmallVector<Value>{
        parts.select(isChosen, gradient, parts.splat(gradient, 0))};
  }
  // Elements equal to the extremum share the gradient, as PyTorch's amax does.
  Value equal = CompareOp::create(builder, getLoc(), getInput(),
                                  spread(getResult()), Comparison::EQ);
  auto type = cast<RankedTensorType>(getInput().getType());
  Value ones =
      ConvertOp::create(builder, getLoc(), equal, type.getElementType());
  Value count =
      ReduceOp::create(builder, getLoc(), ReductionKind::Sum, ones, getDims());
  Value share = DivOp::create(builder, getLoc(), gradients[0], count);
  return SmallVector<Value>{
      MulOp::create(builder, getLoc(), ones, spread(share))};
}
