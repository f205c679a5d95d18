// grouped_matmul and grouped_outer.

#include "dialects/graph/Parts.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

using Gradients = FailureOr<SmallVector<Value>>;

static int64_t rankOf(Value value) {
  return static_cast<int64_t>(getShape(value).size());
}

/// The type of a result of `shape`, with the rows' elements unless it has
/// others.
static RankedTensorType typeOfResult(Value rows, ArrayRef<int64_t> shape,
                                     Type element) {
  return RankedTensorType::get(shape,
                               element ? element : getElementTypeOrSelf(rows));
}

/// Conditions 1 to 3 of both ops: `second` has `rank` dims, and its dim 0 has
/// the size of the `ids` or, if it has rows, of the `groups`.
static LogicalResult verifyOperands(Operation *op, int64_t rank) {
  Value rows = op->getOperand(0), second = op->getOperand(1),
        groups = op->getOperand(2), ids = op->getOperand(3);
  if (failed(verifyProductElements(op, rows, second)))
    return failure();
  if (rankOf(rows) != 2 || rankOf(second) != rank || rankOf(groups) != 1 ||
      rankOf(ids) != 1)
    return op->emitOpError("[2] has operands of ")
           << rankOf(rows) << ", " << rankOf(second) << ", " << rankOf(groups)
           << " and " << rankOf(ids) << " dims, not of 2, " << rank
           << ", 1 and 1";
  Value counted = rank == 2 ? groups : ids;
  if (getShape(rows)[0] != getShape(groups)[0] ||
      getShape(second)[0] != getShape(counted)[0] ||
      (rank == 3 && getShape(second)[1] != getShape(rows)[1]))
    return op->emitOpError("[3] does not fit: ")
           << llvm::interleaved(op->getOperandTypes());
  return success();
}

static LogicalResult verifyResult(Operation *op, ArrayRef<int64_t> shape) {
  if (getShape(op->getResult(0)) == shape)
    return success();
  return op->emitOpError("[4] has result ")
         << op->getResult(0).getType() << ", its operands give the shape ["
         << llvm::interleaved(shape) << "]";
}

/// 2 FLOPs for each element of a row and column of its group's matrix.
static Cost groupedCost(Operation *op, int64_t columns) {
  Cost cost = elementwiseCost(op);
  cost.flops = 2 * numElements(getShape(op->getOperand(0))) * columns;
  return cost;
}

/// Adds a factor of these dims (-1: the tensor lacks it); none is added for
/// size 1.
static void addFactor(ShardingRule &rule, int64_t size, FactorKind kind,
                      ArrayRef<int64_t> operandDims, int64_t resultDim) {
  if (size == 1)
    return;
  int factor = rule.addFactor(size, kind);
  for (auto [operand, dim] : llvm::enumerate(operandDims))
    if (dim >= 0)
      rule.operands[operand][dim] = {factor};
  if (resultDim >= 0)
    rule.results[0][resultDim] = {factor};
}

static void passSums(ShardingRule &rule) {
  for (unsigned operand : {0, 1})
    rule.setPass(ReductionKind::Sum, operand, PartialPass::Alone);
}

static Value swapLast(OpBuilder &builder, Location location, Value matrices) {
  return TransposeOp::create(builder, location, matrices,
                             ArrayRef<int64_t>{0, 2, 1});
}

namespace {
/// Computes the gradients of a product in the type of its result's gradient,
/// which may be wider than the factors' type, and rounds them to that.
struct InType {
  InType(OpBuilder &builder, Operation *product, Value gradient)
      : parts(builder, product->getLoc()),
        factors(getElementTypeOrSelf(product->getOperand(0))),
        wide(getElementTypeOrSelf(gradient)) {}

  Value widen(Value factor) { return parts.inType(factor, wide); }
  Value round(Value gradient) { return parts.inType(gradient, factors); }

  Parts parts;
  Type factors, wide;
};
} // namespace

// Rows times the matrix of their group

void GroupedMatmulOp::build(OpBuilder &builder, OperationState &state,
                            Value rows, Value matrices, Value groups, Value ids,
                            Type resultElement) {
  build(builder, state,
        typeOfResult(rows, {getShape(rows)[0], getShape(matrices)[2]},
                     resultElement),
        rows, matrices, groups, ids);
}

LogicalResult GroupedMatmulOp::verify() {
  if (failed(verifyOperands(*this, 3)))
    return failure();
  return verifyResult(*this,
                      {getShape(getRows())[0], getShape(getMatrices())[2]});
}

ShardingRule GroupedMatmulOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  ArrayRef<int64_t> rows = getShape(getRows()),
                    matrices = getShape(getMatrices());
  addFactor(rule, rows[0], FactorKind::Parallel, {0, -1, 0, -1}, 0);
  addFactor(rule, matrices[2], FactorKind::Parallel, {-1, 2, -1, -1}, 1);
  addFactor(rule, matrices[0], FactorKind::Reduction, {-1, 0, -1, 0}, -1);
  addFactor(rule, rows[1], FactorKind::Reduction, {1, 1, -1, -1}, -1);
  passSums(rule);
  return rule;
}

LogicalResult GroupedMatmulOp::evaluate(ArrayRef<Tensor> operands,
                                        MutableArrayRef<Tensor> results) {
  const Tensor &rows = operands[0], &matrices = operands[1],
               &groups = operands[2], &ids = operands[3];
  int64_t inner = rows.shape[1], columns = matrices.shape[2];
  for (int64_t s = 0; s < rows.shape[0]; ++s)
    for (int64_t e = 0; e < matrices.shape[0]; ++e) {
      if (ids.integers[e] != groups.integers[s])
        continue;
      for (int64_t n = 0; n < columns; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += rows.floats[s * inner + k] *
                 matrices.floats[(e * inner + k) * columns + n];
        results[0].floats[s * columns + n] += sum;
      }
    }
  return success();
}

Gradients GroupedMatmulOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> gradients,
                                         ArrayRef<bool> needed) {
  SmallVector<Value> result(4);
  InType in(builder, *this, gradients[0]);
  if (needed[0])
    result[0] = in.round(GroupedMatmulOp::create(
        builder, getLoc(), gradients[0],
        swapLast(builder, getLoc(), in.widen(getMatrices())), getGroups(),
        getIds()));
  if (needed[1])
    result[1] =
        in.round(GroupedOuterOp::create(builder, getLoc(), in.widen(getRows()),
                                        gradients[0], getGroups(), getIds()));
  return result;
}

Cost GroupedMatmulOp::getCost() {
  return groupedCost(*this, getShape(getResult())[1]);
}

// Sums of outer products

void GroupedOuterOp::build(OpBuilder &builder, OperationState &state,
                           Value rows, Value others, Value groups, Value ids,
                           Type resultElement) {
  build(builder, state,
        typeOfResult(rows,
                     {getShape(ids)[0], getShape(rows)[1], getShape(others)[1]},
                     resultElement),
        rows, others, groups, ids);
}

LogicalResult GroupedOuterOp::verify() {
  if (failed(verifyOperands(*this, 2)))
    return failure();
  return verifyResult(*this, {getShape(getIds())[0], getShape(getRows())[1],
                              getShape(getOthers())[1]});
}

ShardingRule GroupedOuterOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  ArrayRef<int64_t> rows = getShape(getRows());
  addFactor(rule, getShape(getIds())[0], FactorKind::Parallel, {-1, -1, -1, 0},
            0);
  addFactor(rule, rows[1], FactorKind::Parallel, {1, -1, -1, -1}, 1);
  addFactor(rule, getShape(getOthers())[1], FactorKind::Parallel,
            {-1, 1, -1, -1}, 2);
  addFactor(rule, rows[0], FactorKind::Reduction, {0, 0, 0, -1}, -1);
  passSums(rule);
  return rule;
}

LogicalResult GroupedOuterOp::evaluate(ArrayRef<Tensor> operands,
                                       MutableArrayRef<Tensor> results) {
  const Tensor &rows = operands[0], &others = operands[1],
               &groups = operands[2], &ids = operands[3];
  int64_t height = rows.shape[1], width = others.shape[1];
  for (int64_t e = 0; e < ids.shape[0]; ++e)
    for (int64_t s = 0; s < rows.shape[0]; ++s) {
      if (ids.integers[e] != groups.integers[s])
        continue;
      for (int64_t k = 0; k < height; ++k)
        for (int64_t n = 0; n < width; ++n)
          results[0].floats[(e * height + k) * width + n] +=
              rows.floats[s * height + k] * others.floats[s * width + n];
    }
  return success();
}

Gradients GroupedOuterOp::buildGradient(OpBuilder &builder,
                                        ArrayRef<Value> gradients,
                                        ArrayRef<bool> needed) {
  SmallVector<Value> result(4);
  InType in(builder, *this, gradients[0]);
  if (needed[0])
    result[0] = in.round(GroupedMatmulOp::create(
        builder, getLoc(), in.widen(getOthers()),
        swapLast(builder, getLoc(), gradients[0]), getGroups(), getIds()));
  if (needed[1])
    result[1] =
        in.round(GroupedMatmulOp::create(builder, getLoc(), in.widen(getRows()),
                                         gradients[0], getGroups(), getIds()));
  return result;
}

Cost GroupedOuterOp::getCost() {
  return groupedCost(*this, getShape(getOthers())[1]);
}
