// Helpers to write composites.

#include "dialects/graph/Parts.h"

#include "dialects/graph/ElementTypes.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

TensorFactors polyrank::graph::addFactors(ShardingRule &rule,
                                          ArrayRef<int64_t> shape,
                                          FactorKind kind) {
  TensorFactors dims;
  for (int64_t size : shape)
    dims.push_back(size == 1 ? DimFactors{}
                             : DimFactors{rule.addFactor(size, kind)});
  return dims;
}

LogicalResult polyrank::graph::verifyBorders(Operation *op,
                                             sharding::DimAttr dim,
                                             Border border) {
  if (dim.getHaloLow() == border.low && dim.getHaloHigh() == border.high &&
      !dim.getSpills())
    return success();
  return op->emitOpError("reads borders of ")
         << border.low << " and " << border.high
         << " elements, its operand has " << dim.getHaloLow() << " and "
         << dim.getHaloHigh();
}

void polyrank::graph::addResultTypes(OpBuilder &builder, OperationState &state,
                                     ArrayRef<RankedTensorType> types) {
  state.types.assign(types.begin(), types.end());
  SmallVector<sharding::LayoutAttr> layouts;
  for (Value operand : state.operands)
    layouts.push_back(sharding::getLayout(operand));
  if (llvm::none_of(layouts,
                    [](sharding::LayoutAttr layout) { return !!layout; }))
    return;
  // The sharding rule is a method of an op, so the op must be created to ask
  // for it.
  Operation *op = Operation::create(state);
  for (auto [type, layout] :
       llvm::zip_equal(state.types, inferResultLayouts(op, layouts)))
    type = sharding::withLayout(cast<RankedTensorType>(type), layout);
  op->destroy();
}

Value Parts::logOfSum(Value x, Value y) {
  Value distance = apply<AbsOp>(sub(x, y));
  Value rest = exp(apply<NegOp>(distance));
  return add(apply<MaxOp>(x, y), apply<LogOp>(add(rest, 1)));
}

Value Parts::compare(Value x, Comparison comparison, Value y) {
  auto type = RankedTensorType::get(getShape(x), builder.getI1Type());
  return CompareOp::create(builder, location, type, x, y, comparison);
}

Value Parts::select(Value condition, Value onTrue, Value onFalse) {
  return SelectOp::create(builder, location, getGlobalType(onTrue), condition,
                          onTrue, onFalse);
}

Value Parts::convert(Value x, Type elementType) {
  auto type = RankedTensorType::get(getShape(x), elementType);
  return ConvertOp::create(builder, location, type, x);
}

Value Parts::inType(Value x, Type elementType) {
  return getGlobalType(x).getElementType() == elementType
             ? x
             : convert(x, elementType);
}

Value Parts::iota(ArrayRef<int64_t> shape, Type elementType, int64_t dim) {
  auto type = RankedTensorType::get(shape, elementType);
  return IotaOp::create(builder, location, type, dim);
}

Value Parts::reduce(sharding::ReductionKind kind, Value x,
                    ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(getShape(x)))
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
      shape.push_back(size);
  auto type = RankedTensorType::get(shape, getGlobalType(x).getElementType());
  return ReduceOp::create(builder, location, type, kind, x, dims);
}

Value Parts::broadcast(Value x, ArrayRef<int64_t> shape,
                       ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept;
  for (int64_t dim = 0, rank = shape.size(); dim < rank; ++dim)
    if (!llvm::is_contained(dims, dim))
      kept.push_back(dim);
  auto type = RankedTensorType::get(shape, getGlobalType(x).getElementType());
  return BroadcastOp::create(builder, location, type, x, kept);
}

Value Parts::spread(Value scalar, Value like) {
  RankedTensorType type = getGlobalType(like);
  if (getGlobalType(scalar).getElementType() != type.getElementType())
    scalar = convert(scalar, type.getElementType());
  if (type.getRank() == 0)
    return scalar;
  return broadcast(scalar, type.getShape(),
                   llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
}

Value Parts::transpose(Value x, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(getShape(x)[dim]);
  auto type = RankedTensorType::get(shape, getGlobalType(x).getElementType());
  return TransposeOp::create(builder, location, type, x, permutation);
}

Value Parts::pick(Value x, Value indices, int64_t dim) {
  int64_t last = static_cast<int64_t>(getShape(x).size()) - 1;
  // gather's batch dims come first: [rows.., n].
  if (dim != last) {
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, last + 1));
    order.erase(order.begin() + dim);
    order.push_back(dim);
    x = transpose(x, order);
  }
  return GatherOp::create(builder, location, x, indices, last, last);
}

Value Parts::matmul(Value lhs, Value rhs, ArrayRef<int64_t> lhsBatch,
                    ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract,
                    ArrayRef<int64_t> rhsContract) {
  SmallVector<int64_t> shape;
  for (int64_t dim : lhsBatch)
    shape.push_back(getShape(lhs)[dim]);
  auto addFree = [&](Value value, ArrayRef<int64_t> batch,
                     ArrayRef<int64_t> contract) {
    for (auto [dim, size] : llvm::enumerate(getShape(value)))
      if (!llvm::is_contained(batch, static_cast<int64_t>(dim)) &&
          !llvm::is_contained(contract, static_cast<int64_t>(dim)))
        shape.push_back(size);
  };
  addFree(lhs, lhsBatch, lhsContract);
  addFree(rhs, rhsBatch, rhsContract);
  auto type = RankedTensorType::get(shape, getGlobalType(lhs).getElementType());
  return MatmulOp::create(builder, location, type, lhs, rhs, lhsBatch, rhsBatch,
                          lhsContract, rhsContract);
}

SmallVector<Value> polyrank::graph::decompose(OpBuilder &builder,
                                              CompositeOp composite) {
  auto elementOf = [](Value value) {
    return getGlobalType(value).getElementType();
  };
  auto isNarrowValue = [&](Value value) { return isNarrow(elementOf(value)); };
  Operation *op = composite;
  if (llvm::none_of(op->getOperands(), isNarrowValue) &&
      llvm::none_of(op->getResults(), isNarrowValue))
    return composite.decompose(builder);
  Parts parts(builder, op->getLoc());
  IRMapping widened;
  for (Value operand : op->getOperands())
    widened.map(operand,
                parts.inType(operand, accumulatorOf(elementOf(operand))));
  Operation *wide = builder.clone(*op, widened);
  for (Value result : wide->getResults())
    result.setType(
        getGlobalType(result).clone(accumulatorOf(elementOf(result))));
  SmallVector<Value> values = cast<CompositeOp>(wide).decompose(builder);
  wide->erase();
  for (auto [value, result] : llvm::zip_equal(values, op->getResults()))
    value = parts.inType(value, elementOf(result));
  return values;
}
