// The graph dialect: registration, and functions shared by all ops.

#include "dialects/graph/Graph.h"

#include "dialects/graph/Boundary.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

#include "dialects/graph/GraphDialect.cpp.inc"
#include "dialects/graph/GraphInterfaces.cpp.inc"

void GraphDialect::initialize() {
  registerAttributes();
  registerOps();
}

LogicalResult GraphDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute named) {
  return verifyProvenance(op, named);
}

LogicalResult GraphDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                     unsigned number,
                                                     NamedAttribute attribute) {
  return Boundary::verifyArgument(op, number, attribute);
}

LogicalResult GraphDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned number, NamedAttribute attribute) {
  return Boundary::verifyResult(op, number, attribute);
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder,
                                             Attribute value, Type type,
                                             Location location) {
  auto elements = dyn_cast<DenseElementsAttr>(value);
  if (!elements)
    return nullptr;
  return ConstantOp::create(builder, location, type, elements);
}

Value LocalContext::blockOffset(Location location, sharding::LayoutAttr layout,
                                int64_t dim, int64_t localSize) {
  ArrayRef<sharding::AxisRef> axes = layout.getDim(dim).getAxes();
  if (axes.empty())
    return {};
  Value index = axisIndex(axes);
  return MulOp::create(builder, location, index,
                       splat(builder, location, index.getType(), localSize));
}

/// global index = local index + start of this device's block - border.
Value LocalContext::keepInside(Location location, Value block,
                               sharding::LayoutAttr layout, int64_t dim,
                               int64_t size, double elsewhere) {
  auto type = cast<RankedTensorType>(block.getType());
  sharding::DimAttr split = layout.getDim(dim);
  int64_t low = split.getHaloLow(), extent = type.getDimSize(dim);
  auto line = RankedTensorType::get({extent}, builder.getI64Type());
  Value index = IotaOp::create(builder, location, line, 0);
  if (Value offset = blockOffset(location, layout, dim,
                                 extent - low - split.getHaloHigh()))
    index = AddOp::create(builder, location, index,
                          BroadcastOp::create(builder, location, offset,
                                              line.getShape(),
                                              ArrayRef<int64_t>()));
  auto compare = [&](Comparison comparison, int64_t bound) -> Value {
    return CompareOp::create(builder, location, index,
                             splat(builder, location, line, bound), comparison);
  };
  Value inside = compare(Comparison::LT, low + size);
  if (low)
    inside = AndOp::create(builder, location, inside.getType(), inside,
                           compare(Comparison::GE, low));
  Value condition =
      BroadcastOp::create(builder, location, inside, type.getShape(), dim);
  return SelectOp::create(builder, location, condition, block,
                          splat(builder, location, type, elsewhere));
}

LogicalResult
polyrank::graph::localizeByCloning(Operation *op, LocalContext &context,
                                   ValueRange operands,
                                   SmallVectorImpl<Value> &results) {
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  Operation *local = context.builder.clone(*op, mapping);
  for (Value result : local->getResults())
    result.setType(
        sharding::getLocalType(cast<RankedTensorType>(result.getType())));
  llvm::append_range(results, local->getResults());
  return success();
}

static int64_t bytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

bool polyrank::graph::isProduct(Operation *op) {
  return isa<MatmulOp, GroupedMatmulOp, GroupedOuterOp>(op);
}

Cost polyrank::graph::elementwiseCost(Operation *op) {
  Cost cost;
  for (Value operand : op->getOperands())
    cost.bytesRead += bytes(operand.getType());
  for (Value result : op->getResults()) {
    cost.bytesWritten += bytes(result.getType());
    cost.flops += cast<RankedTensorType>(result.getType()).getNumElements();
  }
  return cost;
}

LogicalResult polyrank::graph::verifySameElements(Operation *op,
                                                  ValueRange values,
                                                  int64_t constraint) {
  for (Value value : values)
    if (getElementTypeOrSelf(value) != getElementTypeOrSelf(values.front()))
      return op->emitOpError("[")
             << constraint << "] computes with "
             << getElementTypeOrSelf(values.front()) << " and "
             << getElementTypeOrSelf(value)
             << "; element types are equal (graph.convert)";
  return success();
}

LogicalResult polyrank::graph::verifySums(Operation *op, ValueRange values,
                                          StringRef names,
                                          ArrayRef<Value> sums) {
  if (failed(verifySameElements(op, values)))
    return failure();
  Type element = getElementTypeOrSelf(values.front());
  Type expected = accumulatorOf(element);
  for (Value value : sums)
    if (value && getElementTypeOrSelf(value) != expected)
      return op->emitOpError("[1] elements of ")
             << names << " are " << expected << ", the type of sums of "
             << element << "; not " << getElementTypeOrSelf(value)
             << " (graph.convert)";
  return success();
}

LogicalResult polyrank::graph::verifyProductElements(Operation *op, Value left,
                                                     Value right) {
  if (failed(verifySameElements(op, {left, right})))
    return failure();
  Type element = getElementTypeOrSelf(left),
       result = getElementTypeOrSelf(op->getResult(0)),
       accumulator = accumulatorOf(element);
  if (accumulator == element)
    return verifySameElements(op, {left, op->getResult(0)});
  if (result == element || result == accumulator)
    return success();
  return op->emitOpError("[1] multiplies ")
         << element << " and gives " << result << "; the result is " << element
         << ", or " << accumulator << ", in which its products are added";
}

LogicalResult polyrank::graph::verifySameShapes(Operation *op) {
  auto shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (cast<RankedTensorType>(operand.getType()).getShape() != shape)
      return op->emitOpError("[1] operand ")
             << i << " has type " << operand.getType() << ", the result "
             << op->getResult(0).getType()
             << "; shapes are equal (graph.broadcast)";
  // All ops except conversions compute in one type; conditions and results of
  // comparisons are booleans by their own types.
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    auto to = dyn_cast<FloatType>(getElementTypeOrSelf(convert.getResult())),
         from = dyn_cast<FloatType>(getElementTypeOrSelf(convert.getInput()));
    if (convert.getParts() &&
        (!from || !to || to.getWidth() >= from.getWidth()))
      return convert.emitOpError("[2] rounds parts of a sum of ")
             << getElementTypeOrSelf(convert.getInput()) << " to "
             << getElementTypeOrSelf(convert.getResult())
             << ", which is no narrower float";
    return success();
  }
  SmallVector<Value> computed(op->getOperands().drop_front(isa<SelectOp>(op)));
  if (!isa<CompareOp>(op))
    llvm::append_range(computed, op->getResults());
  return verifySameElements(op, computed, 2);
}

Value polyrank::graph::splat(OpBuilder &builder, Location location, Type type,
                             double value) {
  return ConstantOp::create(builder, location, cast<RankedTensorType>(type),
                            value);
}

Value polyrank::graph::broadcastOver(OpBuilder &builder, Location location,
                                     Value value, ArrayRef<int64_t> shape,
                                     ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept;
  for (int64_t d = 0, rank = shape.size(); d < rank; ++d)
    if (!llvm::is_contained(dims, d))
      kept.push_back(d);
  return BroadcastOp::create(builder, location, value, shape, kept);
}
