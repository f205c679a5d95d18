// gather and scatter_add: elements addressed by an index operand.

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

using Gradients = FailureOr<SmallVector<Value>>;

namespace {
/// How the dims of the three tensors correspond: the *table* [batch, before, n,
/// after] (gather's operand, scatter_add's result), the *indices* [batch,
/// index], and the *slices* [batch, before, index, after] (gather's result,
/// scatter_add's updates).
struct Indexing {
  int64_t batch, axis, tableRank, indexRank;

  int64_t sliceRank() const { return tableRank - 1 + indexRank - batch; }
  /// The slices' dim of a table dim other than the axis.
  int64_t sliceOfTable(int64_t d) const {
    return d < axis ? d : d - 1 + indexRank - batch;
  }
  int64_t sliceOfIndex(int64_t d) const {
    return d < batch ? d : d - batch + axis;
  }

  SmallVector<int64_t> sliceShape(ArrayRef<int64_t> table,
                                  ArrayRef<int64_t> indices) const {
    SmallVector<int64_t> shape(sliceRank());
    for (int64_t d = 0; d < tableRank; ++d)
      if (d != axis)
        shape[sliceOfTable(d)] = table[d];
    for (int64_t d = batch; d < indexRank; ++d)
      shape[sliceOfIndex(d)] = indices[d];
    return shape;
  }

  LogicalResult verify(Operation *op, ArrayRef<int64_t> table,
                       ArrayRef<int64_t> indices,
                       ArrayRef<int64_t> slices) const {
    if (batch < 0 || axis < batch || axis >= tableRank || batch > indexRank)
      return op->emitOpError("[2] has axis ")
             << axis << " and " << batch << " batch dims for a table of rank "
             << tableRank << " and indices of rank " << indexRank;
    for (int64_t d = 0; d < batch; ++d)
      if (table[d] != indices[d])
        return op->emitOpError("[3] batch dim ")
               << d << " has size " << table[d] << " in the table and "
               << indices[d] << " in the indices";
    if (ArrayRef<int64_t>(sliceShape(table, indices)) != slices)
      return op->emitOpError("[4] has slices of shape [")
             << llvm::interleaved(slices).str() << "], expected ["
             << llvm::interleaved(sliceShape(table, indices)).str() << "]";
    return success();
  }

  /// Adds the rule's factors: `indexKind` is that of the index dims.
  void addFactors(ShardingRule &rule, ArrayRef<int64_t> table,
                  ArrayRef<int64_t> indices, FactorKind indexKind,
                  TensorFactors &tableFactors, TensorFactors &indexFactors,
                  TensorFactors &sliceFactors) const {
    for (int64_t d = 0; d < tableRank; ++d) {
      if (table[d] == 1 && d != axis)
        continue;
      if (d == axis) {
        if (table[d] != 1)
          tableFactors[d] = {rule.addFactor(table[d], FactorKind::Indexed)};
        continue;
      }
      DimFactors factor = {rule.addFactor(table[d])};
      tableFactors[d] = sliceFactors[sliceOfTable(d)] = factor;
      if (d < batch)
        indexFactors[d] = factor;
    }
    for (int64_t d = batch; d < indexRank; ++d)
      if (indices[d] != 1)
        indexFactors[d] = sliceFactors[sliceOfIndex(d)] = {
            rule.addFactor(indices[d], indexKind)};
  }

  /// Calls `body(table offset, slice offset)` for every slice element whose
  /// index is in range, in row-major order of the slices.
  void forEach(const Tensor &indices, ArrayRef<int64_t> table,
               ArrayRef<int64_t> slices,
               function_ref<void(int64_t, int64_t)> body) const {
    SmallVector<int64_t> tableStrides = getStrides(table),
                         indexStrides = getStrides(indices.shape);
    int64_t slice = -1;
    forEachIndex(slices, [&](ArrayRef<int64_t> position) {
      ++slice;
      int64_t at = 0;
      for (int64_t d = 0; d < indexRank; ++d)
        at += position[sliceOfIndex(d)] * indexStrides[d];
      int64_t index = indices.integers[at];
      if (index < 0 || index >= table[axis])
        return;
      int64_t offset = index * tableStrides[axis];
      for (int64_t d = 0; d < tableRank; ++d)
        if (d != axis)
          offset += position[sliceOfTable(d)] * tableStrides[d];
      body(offset, slice);
    });
  }
};
} // namespace

/// Indices relative to the start of this device's block: those of other blocks
/// fall out of range.
static Value shiftIndices(LocalContext &context, Location location,
                          Value indices, sharding::LayoutAttr table,
                          int64_t axis, int64_t localSize) {
  OpBuilder &builder = context.builder;
  Value offset = context.blockOffset(location, table, axis, localSize);
  if (!offset)
    return indices;
  Type element = cast<RankedTensorType>(indices.getType()).getElementType();
  if (cast<RankedTensorType>(offset.getType()).getElementType() != element)
    offset = ConvertOp::create(builder, location, offset, element);
  return SubOp::create(builder, location, indices,
                       BroadcastOp::create(builder, location, offset,
                                           getShape(indices),
                                           ArrayRef<int64_t>{}));
}

// Gather

static Indexing indexing(GatherOp op) {
  return {static_cast<int64_t>(op.getBatchDims()),
          static_cast<int64_t>(op.getAxis()),
          cast<RankedTensorType>(op.getOperand().getType()).getRank(),
          cast<RankedTensorType>(op.getIndices().getType()).getRank()};
}

void GatherOp::build(OpBuilder &builder, OperationState &state, Value operand,
                     Value indices, int64_t axis, int64_t batchDims) {
  Indexing mapping{batchDims, axis,
                   cast<RankedTensorType>(operand.getType()).getRank(),
                   cast<RankedTensorType>(indices.getType()).getRank()};
  build(builder, state,
        RankedTensorType::get(
            mapping.sliceShape(getShape(operand), getShape(indices)),
            cast<RankedTensorType>(operand.getType()).getElementType()),
        operand, indices, axis, batchDims, IntegerAttr());
}

LogicalResult GatherOp::verify() {
  if (failed(verifySameElements(*this, {getOperand(), getResult()})))
    return failure();
  return indexing(*this).verify(*this, getShape(getOperand()),
                                getShape(getIndices()), getShape(getResult()));
}

ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  indexing(*this).addFactors(rule, getShape(getOperand()),
                             getShape(getIndices()), FactorKind::Parallel,
                             rule.operands[0], rule.operands[1],
                             rule.results[0]);
  rule.passAll(0);
  return rule;
}

LogicalResult GatherOp::localize(LocalContext &context, ValueRange operands,
                                 SmallVectorImpl<Value> &results) {
  Value indices = shiftIndices(context, getLoc(), operands[1],
                               sharding::getLayout(getOperand()), getAxis(),
                               getShape(operands[0])[getAxis()]);
  results.push_back(GatherOp::create(context.builder, getLoc(), operands[0],
                                     indices, getAxis(), getBatchDims()));
  return success();
}

LogicalResult GatherOp::evaluate(ArrayRef<Tensor> operands,
                                 MutableArrayRef<Tensor> results) {
  indexing(*this).forEach(operands[1], operands[0].shape, results[0].shape,
                          [&](int64_t table, int64_t slice) {
                            results[0].copy(slice, operands[0], table);
                          });
  return success();
}

Gradients GatherOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                  ArrayRef<bool>) {
  Value indices = getIndices();
  Parts parts(builder, getLoc());
  if (std::optional<int64_t> padding = getPaddingIndex()) {
    // scatter_add drops updates whose index is out of range.
    Value isPadding =
        parts.compare(indices, Comparison::EQ,
                      parts.splat(indices, static_cast<double>(*padding)));
    indices = parts.select(isPadding, parts.splat(indices, -1), indices);
  }
  Type element = getGlobalType(getOperand()).getElementType();
  Value gradient = ScatterAddOp::create(
      builder, getLoc(),
      RankedTensorType::get(getShape(getOperand()), accumulatorOf(element)),
      indices, gradients[0], /*init=*/Value(), getAxis(), getBatchDims());
  return SmallVector<Value>{parts.inType(gradient, element), Value()};
}

// ScatterAdd

static Indexing indexing(ScatterAddOp op) {
  return {static_cast<int64_t>(op.getBatchDims()),
          static_cast<int64_t>(op.getAxis()),
          cast<RankedTensorType>(op.getResult().getType()).getRank(),
          cast<RankedTensorType>(op.getIndices().getType()).getRank()};
}

LogicalResult ScatterAddOp::verify() {
  if (failed(verifySums(*this, getUpdates(), "the result", {getResult()})))
    return failure();
  if (getInit() && getInit().getType() != getResult().getType())
    return emitOpError("[5] adds to ")
           << getInit().getType() << ", but gives " << getResult().getType();
  if (getInit() && sharding::getLayout(getResult()))
    return emitOpError(
        "[6] begins with zeros where it has a layout; use graph.add");
  return indexing(*this).verify(*this, getShape(getResult()),
                                getShape(getIndices()), getShape(getUpdates()));
}

ShardingRule ScatterAddOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  indexing(*this).addFactors(rule, getShape(getResult()),
                             getShape(getIndices()), FactorKind::Reduction,
                             rule.results[0], rule.operands[0],
                             rule.operands[1]);
  rule.setPass(ReductionKind::Sum, 1, PartialPass::Any);
  if (getInit())
    rule.operands[2] = rule.results[0];
  return rule;
}

LogicalResult ScatterAddOp::localize(LocalContext &context, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  RankedTensorType local =
      sharding::getLocalType(cast<RankedTensorType>(getResult().getType()));
  Value indices = shiftIndices(context, getLoc(), operands[0],
                               sharding::getLayout(getResult()), getAxis(),
                               local.getDimSize(getAxis()));
  results.push_back(ScatterAddOp::create(
      context.builder, getLoc(), local, indices, operands[1],
      /*init=*/Value(), getAxis(), getBatchDims()));
  return success();
}

LogicalResult ScatterAddOp::evaluate(ArrayRef<Tensor> operands,
                                     MutableArrayRef<Tensor> results) {
  Tensor &result = results[0];
  if (getInit())
    result = operands[2];
  indexing(*this).forEach(operands[0], result.shape, operands[1].shape,
                          [&](int64_t table, int64_t slice) {
                            if (result.isFloat())
                              result.floats[table] += operands[1].floats[slice];
                            else
                              result.integers[table] +=
                                  operands[1].integers[slice];
                          });
  return success();
}

Gradients ScatterAddOp::buildGradient(OpBuilder &builder,
                                      ArrayRef<Value> gradients,
                                      ArrayRef<bool>) {
  Parts parts(builder, getLoc());
  Value picked = GatherOp::create(builder, getLoc(), gradients[0], getIndices(),
                                  getAxis(), getBatchDims());
  SmallVector<Value> result = {
      Value(),
      parts.inType(picked, getGlobalType(getUpdates()).getElementType())};
  if (getInit())
    result.push_back(gradients[0]);
  return result;
}
