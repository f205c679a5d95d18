// Constant values: constant and iota.

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

// Constant

void ConstantOp::build(OpBuilder &builder, OperationState &state,
                       RankedTensorType type, double value) {
  Type element = type.getElementType();
  auto plain = RankedTensorType::get(type.getShape(), element);
  Attribute scalar;
  if (auto floatType = dyn_cast<FloatType>(element))
    scalar = FloatAttr::get(floatType, value);
  else
    scalar = IntegerAttr::get(element, toInteger(element, value));
  build(builder, state, type, DenseElementsAttr::get(plain, scalar));
}

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  // The attribute has no layout: folding a laid-out constant would lose it.
  return sharding::getLayout(getResult()) ? OpFoldResult()
                                          : OpFoldResult(getValue());
}

LogicalResult ConstantOp::verify() {
  if (getValue().getShapedType().getShape() != getShape(getResult()) ||
      getValue().getElementType() !=
          cast<RankedTensorType>(getResult().getType()).getElementType())
    return emitOpError("[1] has a value of type ")
           << getValue().getShapedType() << " and a result of type "
           << getResult().getType();
  return success();
}

ShardingRule ConstantOp::getShardingRule() { return elementwiseRule(*this); }

LogicalResult ConstantOp::localize(LocalContext &context, ValueRange,
                                   SmallVectorImpl<Value> &results) {
  auto value = cast<DenseElementsAttr>(getValue());
  RankedTensorType local =
      sharding::getLocalType(cast<RankedTensorType>(getResult().getType()));
  sharding::LayoutAttr layout = sharding::getLayout(getResult());
  if (value.isSplat()) {
    results.push_back(ConstantOp::create(context.builder, getLoc(), local,
                                         value.resizeSplat(local)));
    return success();
  }
  // For one dim after another, pad, then keep this device's block by gathering
  // its indices.
  Value block = ConstantOp::create(context.builder, getLoc(), value);
  for (int64_t d = 0, rank = local.getRank(); d < rank; ++d) {
    sharding::DimAttr dim = layout.getDim(d);
    int64_t size = local.getDimSize(d);
    if (dim.isWhole())
      continue;
    auto indexType =
        RankedTensorType::get({size}, context.builder.getI64Type());
    Value indices = IotaOp::create(context.builder, getLoc(), indexType, 0);
    if (Value offset = context.blockOffset(getLoc(), layout, d, size))
      indices = AddOp::create(
          context.builder, getLoc(), indices,
          BroadcastOp::create(context.builder, getLoc(), offset,
                              ArrayRef<int64_t>{size}, ArrayRef<int64_t>{}));
    block = GatherOp::create(context.builder, getLoc(), block, indices, d);
  }
  results.push_back(block);
  return success();
}

LogicalResult ConstantOp::evaluate(ArrayRef<Tensor>,
                                   MutableArrayRef<Tensor> results) {
  results[0] = Tensor::fromAttribute(cast<DenseElementsAttr>(getValue()));
  return success();
}

// Iota

LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getDim()) >=
          cast<RankedTensorType>(getResult().getType()).getRank() ||
      static_cast<int64_t>(getDim()) < 0)
    return emitOpError("[1] counts along dim ")
           << getDim() << " of a result of rank "
           << cast<RankedTensorType>(getResult().getType()).getRank();
  return success();
}

ShardingRule IotaOp::getShardingRule() { return elementwiseRule(*this); }

LogicalResult IotaOp::localize(LocalContext &context, ValueRange,
                               SmallVectorImpl<Value> &results) {
  OpBuilder &builder = context.builder;
  RankedTensorType local =
      sharding::getLocalType(cast<RankedTensorType>(getResult().getType()));
  Value result = IotaOp::create(builder, getLoc(), local, getDim());
  Value offset = context.blockOffset(getLoc(), sharding::getLayout(getResult()),
                                     getDim(), local.getDimSize(getDim()));
  if (offset) {
    if (offset.getType() != local.getElementType())
      offset =
          ConvertOp::create(builder, getLoc(), offset, local.getElementType());
    result = AddOp::create(builder, getLoc(), result,
                           BroadcastOp::create(builder, getLoc(), offset,
                                               local.getShape(),
                                               ArrayRef<int64_t>{}));
  }
  results.push_back(result);
  return success();
}

LogicalResult IotaOp::evaluate(ArrayRef<Tensor>,
                               MutableArrayRef<Tensor> results) {
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    results[0].set(to++, index[getDim()]);
  });
  return success();
}

std::optional<double> graph::getSplat(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<BroadcastOp, ReshapeOp>(op))
    return getSplat(op->getOperand(0));
  if (auto convert = dyn_cast_or_null<ConvertOp>(op)) {
    auto isFloat = [](Value each) {
      return isa<FloatType>(
          cast<RankedTensorType>(each.getType()).getElementType());
    };
    if (isFloat(convert.getInput()) && isFloat(convert.getResult())) {
      std::optional<double> number = getSplat(convert.getInput());
      Type element = getGlobalType(convert.getResult()).getElementType();
      // Other types keep the number as the program writes it.
      return number && isNarrow(element)
                 ? roundTo(cast<FloatType>(element), *number)
                 : number;
    }
  }
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  if (!constant)
    return std::nullopt;
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType())) {
    APFloat number = elements.getSplatValue<APFloat>();
    bool loses = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return number.convertToDouble();
  }
  // A double does not hold every integer of more than 53 bits. It holds the
  // smallest, and the largest in the form that converts back to it.
  APInt number = elements.getSplatValue<APInt>();
  int64_t integer = number.getBitWidth() == 1
                        ? static_cast<int64_t>(number.getZExtValue())
                        : number.getSExtValue();
  auto nearest = static_cast<double>(integer);
  return toInteger(elements.getElementType(), nearest) == integer
             ? std::optional(nearest)
             : std::nullopt;
}
