// The pipeline dialect: attributes and ops.

#include "dialects/pipeline/Pipeline.h"

#include "dialects/graph/Blocks.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::pipeline;
using graph::Cost;
using graph::ShardingRule;
using graph::Tensor;
using sharding::LayoutAttr;

#include "dialects/pipeline/PipelineDialect.cpp.inc"

static ParseResult parseAlikeTypes(OpAsmParser &parser, Type &operand,
                                   Type &result) {
  if (parser.parseType(operand))
    return failure();
  result = operand;
  return succeeded(parser.parseOptionalArrow()) ? parser.parseType(result)
                                                : success();
}

static void printAlikeTypes(OpAsmPrinter &printer, Operation *, Type operand,
                            Type result) {
  printer << operand;
  if (operand != result)
    printer << " -> " << result;
}

#define GET_OP_CLASSES
#include "dialects/pipeline/PipelineOps.cpp.inc"

void PipelineDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/pipeline/PipelineOps.cpp.inc"
      >();
}

std::optional<Stages> pipeline::getStages(ModuleOp module) {
  auto axis = module->getAttrOfType<StringAttr>(axisAttrName);
  auto coordinates =
      module->getAttrOfType<DenseI64ArrayAttr>(coordinatesAttrName);
  if (!axis || !coordinates)
    return std::nullopt;
  return Stages{axis.getValue(), coordinates.asArrayRef()};
}

// P1 and P2

static LogicalResult verifyModule(Operation *op) {
  auto axis = op->getAttr(axisAttrName);
  auto coordinates = op->getAttrOfType<DenseI64ArrayAttr>(coordinatesAttrName);
  if (!isa_and_present<StringAttr>(axis) || !coordinates)
    return op->emitError(
        "[P1] pipeline.axis is a name and pipeline.coordinates "
        "an array of numbers, and one needs the other");
  int64_t size = ShapedType::kDynamic;
  if (auto module = dyn_cast<ModuleOp>(op))
    if (sharding::MeshAttr mesh = sharding::getMesh(module)) {
      int32_t number = mesh.lookup(cast<StringAttr>(axis).getValue());
      if (number < 0)
        return op->emitError("[P1] pipeline.axis is ")
               << axis << ", which is no axis of " << mesh;
      size = mesh.getAxisSizes()[number];
    }
  for (int64_t coordinate : coordinates.asArrayRef())
    if (coordinate < 0 || (size >= 0 && coordinate >= size))
      return op->emitError("[P1] a stage lies at coordinate ")
             << coordinate << " of " << axis << ", whose size is " << size;
  return success();
}

LogicalResult
PipelineDialect::verifyOperationAttribute(Operation *op,
                                          NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == axisAttrName || name == coordinatesAttrName)
    return verifyModule(op);
  if (name == scheduleAttrName && isa<StringAttr>(attribute.getValue()))
    return success();
  return op->emitError("[P2] ")
         << name << " = " << attribute.getValue()
         << " is no attribute that the pipeline dialect knows";
}

static LayoutAttr withoutPlaces(LayoutAttr layout) {
  return layout
             ? LayoutAttr::get(layout.getMesh(), layout.getDims(),
                               layout.getPartialKind(), layout.getPartialAxes())
             : layout;
}

/// The same layout with undefined padding.
static LayoutAttr withoutFill(LayoutAttr layout) {
  if (!layout)
    return layout;
  SmallVector<sharding::DimAttr> dims;
  for (sharding::DimAttr dim : layout.getDims())
    dims.push_back(
        sharding::DimAttr::get(layout.getMesh(), dim.getAxes(), dim.getPadded(),
                               sharding::Fill::Undefined, dim.getHaloLow(),
                               dim.getHaloHigh(), dim.getSpills()));
  return withoutPlaces(layout.withDims(dims));
}

// transfer

LogicalResult TransferOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType()),
       to = cast<RankedTensorType>(getResult().getType());
  if (sharding::withLayout(from, withoutPlaces(sharding::getLayout(from))) !=
          sharding::withLayout(to, withoutPlaces(sharding::getLayout(to))) &&
      sharding::withLayout(from, withoutFill(sharding::getLayout(from))) !=
          sharding::withLayout(to, withoutPlaces(sharding::getLayout(to))))
    return emitOpError("[1] makes ")
           << to << " of " << from << "; only the place may change";
  int64_t target = static_cast<int64_t>(getTo());
  std::optional<int64_t> source = getFrom();
  if (target < 0 || (source && (*source < 0 || *source == target)))
    return emitOpError("[2] goes from stage ")
           << source.value_or(-1) << " to " << target
           << "; stages begin with 0, and a value stays where it is without it";
  return success();
}

ShardingRule TransferOp::getShardingRule() {
  ShardingRule rule = graph::elementwiseRule(*this);
  rule.passAll(0);
  return rule;
}

LogicalResult TransferOp::evaluate(ArrayRef<Tensor> operands,
                                   MutableArrayRef<Tensor> results) {
  results[0] = operands[0];
  return success();
}

Cost TransferOp::getCost() { return {}; }

FailureOr<SmallVector<Value>>
TransferOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                          ArrayRef<bool> needed) {
  if (!needed[0])
    return SmallVector<Value>{Value()};
  if (!getFrom())
    return emitOpError("has no gradient: its operand is on all stages");
  Value back = TransferOp::create(
      builder, getLoc(), getInput().getType(), resultGradients[0],
      builder.getI64IntegerAttr(getTo()), *getFrom());
  return SmallVector<Value>{back};
}

// join

LogicalResult JoinOp::verify() {
  if (getInputs().empty())
    return emitOpError("[1] joins nothing");
  auto result = cast<RankedTensorType>(getResult().getType());
  LayoutAttr first = sharding::getLayout(getInputs().front());
  for (Value input : getInputs()) {
    auto type = cast<RankedTensorType>(input.getType());
    if (sharding::withLayout(type, nullptr) !=
        sharding::withLayout(result, nullptr))
      return emitOpError("[1] makes ") << result << " of " << type;
    if (withoutPlaces(sharding::getLayout(type)) != withoutPlaces(first))
      return emitOpError("[2] joins ")
             << type << " and " << getInputs().front().getType();
  }
  LayoutAttr layout = sharding::getLayout(result);
  if (!first || !layout)
    return first == layout ? success()
                           : emitOpError("[2] has layouts in part only");
  if (first.isPartial() && first.getPartialKind() != getKind())
    return emitOpError("[3] joins partial ")
           << stringifyReductionKind(first.getPartialKind()) << " by "
           << stringifyReductionKind(getKind());
  SmallVector<sharding::AxisRef> axes(first.getPartialAxes());
  for (Value input : getInputs())
    for (sharding::Place place : sharding::getLayout(input).getPlaces()) {
      sharding::AxisRef axis = first.getMesh().getAxis(place.axis);
      if (!llvm::is_contained(axes, axis))
        axes.push_back(axis);
    }
  if (layout != withoutPlaces(first).withPartial(getKind(), axes))
    return emitOpError("[2] makes ")
           << result << "; it must be partial over where its operands are: "
           << withoutPlaces(first).withPartial(getKind(), axes);
  return success();
}

/// Operands pass partials only together, so that they have one layout.
ShardingRule JoinOp::getShardingRule() {
  ShardingRule rule = graph::elementwiseRule(*this);
  for (unsigned i = 0; i < getInputs().size(); ++i)
    rule.setPass(getKind(), i, graph::PartialPass::Together);
  return rule;
}

LogicalResult JoinOp::evaluate(ArrayRef<Tensor> operands,
                               MutableArrayRef<Tensor> results) {
  results[0] = graph::reduce(operands, getKind());
  return success();
}

Cost JoinOp::getCost() {
  return {static_cast<int64_t>(getInputs().size()) *
              cast<RankedTensorType>(getResult().getType()).getNumElements(),
          0, 0};
}

/// A join happens once per step, after all gradients.
FailureOr<SmallVector<Value>>
JoinOp::buildGradient(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return emitOpError("has no gradient");
}
