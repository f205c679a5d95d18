// Constraints and costs: their text, their rules, and the dialect's other
// attributes of ops.

#include "dialects/sharding/Constraint.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

static constexpr StringLiteral meshName = "sharding.mesh",
                               constraintName = "sharding.constraint",
                               compositeName = "sharding.composite",
                               objectiveName = "sharding.objective";

// "<" layout ("open" "[" flags "]")? ("priority" N)? ("from" TEXT)?
//     ("result" N)? ">"
void ConstraintAttr::print(AsmPrinter &printer) const {
  printer << "<" << getLayout();
  if (llvm::is_contained(getOpen(), true)) {
    printer << " open [";
    llvm::interleaveComma(getOpen(), printer, [&](bool open) {
      printer << (open ? "true" : "false");
    });
    printer << "]";
  }
  if (getPriority())
    printer << " priority " << getPriority();
  if (!getFrom().empty()) {
    printer << " from ";
    printer.printString(getFrom());
  }
  if (getResult())
    printer << " result " << getResult();
  printer << ">";
}

Attribute ConstraintAttr::parse(AsmParser &parser, Type) {
  LayoutAttr layout;
  if (parser.parseLess() || parser.parseAttribute(layout))
    return {};
  SmallVector<bool> open(layout.getRank());
  int64_t priority = 0, result = 0;
  std::string from;
  if (succeeded(parser.parseOptionalKeyword("open"))) {
    open.clear();
    auto parseFlag = [&]() -> ParseResult {
      StringRef flag;
      if (parser.parseKeyword(&flag))
        return failure();
      if (flag != "true" && flag != "false")
        return parser.emitError(parser.getCurrentLocation())
               << "expected true or false, found " << flag;
      open.push_back(flag == "true");
      return success();
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseFlag))
      return {};
  }
  if (succeeded(parser.parseOptionalKeyword("priority")) &&
      parser.parseInteger(priority))
    return {};
  if (succeeded(parser.parseOptionalKeyword("from")) &&
      parser.parseString(&from))
    return {};
  if (succeeded(parser.parseOptionalKeyword("result")) &&
      parser.parseInteger(result))
    return {};
  if (parser.parseGreater())
    return {};
  return ConstraintAttr::getChecked(
      [&] { return parser.emitError(parser.getCurrentLocation()); },
      parser.getContext(), layout, ArrayRef<bool>(open), priority,
      StringRef(from), result);
}

// 1. There is a flag for each dim.
LogicalResult
ConstraintAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       LayoutAttr layout, ArrayRef<bool> open, int64_t,
                       StringRef, int64_t) {
  if (static_cast<int64_t>(open.size()) != layout.getRank())
    return emitError() << "[constraint 1] a constraint on " << layout.getRank()
                       << " dims says of " << open.size()
                       << " whether they are open";
  return success();
}

// 1. No number is negative.
LogicalResult CostAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> violations, int64_t bytes,
                               int64_t flops) {
  SmallVector<int64_t> numbers(violations);
  numbers.append({bytes, flops});
  for (int64_t number : numbers)
    if (number < 0)
      return emitError() << "[cost 1] a cost has the number " << number;
  return success();
}

// 1. The bound is not above the value.
LogicalResult
ObjectiveAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      CostAttr value, CostAttr bound) {
  auto numbersOf = [&](CostAttr cost) {
    SmallVector<int64_t> numbers(cost.getViolations());
    numbers.resize(
        std::max(value.getViolations().size(), bound.getViolations().size()));
    numbers.append({cost.getBytes(), cost.getFlops()});
    return numbers;
  };
  if (numbersOf(value) < numbersOf(bound))
    return emitError() << "[objective 1] the layouts cost " << value
                       << ", less than the bound " << bound;
  return success();
}

MeshAttr sharding::getMesh(ModuleOp module) {
  return module->getAttrOfType<MeshAttr>(meshName);
}

void sharding::setMesh(ModuleOp module, MeshAttr mesh) {
  module->setAttr(meshName, mesh);
}

ConstraintAttr sharding::getConstraint(FunctionOpInterface function,
                                       unsigned argument) {
  return function.getArgAttrOfType<ConstraintAttr>(argument, constraintName);
}

void sharding::setConstraint(FunctionOpInterface function, unsigned argument,
                             ConstraintAttr constraint) {
  if (constraint)
    function.setArgAttr(argument, constraintName, constraint);
  else
    function.removeArgAttr(
        argument, StringAttr::get(function->getContext(), constraintName));
}

ConstraintAttr sharding::getConstraint(Operation *op) {
  return op->getAttrOfType<ConstraintAttr>(constraintName);
}

void sharding::setConstraint(Operation *op, ConstraintAttr constraint) {
  if (constraint)
    op->setAttr(constraintName, constraint);
  else
    op->removeAttr(constraintName);
}

void sharding::markComposite(Operation *op, StringRef reason) {
  op->setAttr(compositeName, StringAttr::get(op->getContext(), reason));
}

bool sharding::isMarkedComposite(Operation *op) {
  return op->hasAttr(compositeName);
}

StringRef sharding::getCompositeReason(Operation *op) {
  return op->getAttrOfType<StringAttr>(compositeName).getValue();
}

ObjectiveAttr sharding::getObjective(Operation *function) {
  return function->getAttrOfType<ObjectiveAttr>(objectiveName);
}

void sharding::setObjective(Operation *function, ObjectiveAttr objective) {
  function->setAttr(objectiveName, objective);
}

// 2. A constraint has the rank of the value that it constrains, and the op has
//    the result.
static LogicalResult verifyConstraint(Operation *op, Attribute attribute,
                                      TypeRange types) {
  auto constraint = dyn_cast<ConstraintAttr>(attribute);
  if (!constraint)
    return op->emitOpError("[constraint 3] ")
           << constraintName << " is a #sharding.constraint, not " << attribute;
  int64_t count = types.size(), number = constraint.getResult();
  if (number < 0 || number >= count)
    return op->emitOpError("[constraint 2] ")
           << "the constraint is on result " << number << " of " << count;
  auto type = dyn_cast<RankedTensorType>(types[number]);
  if (!type || type.getRank() != constraint.getLayout().getRank())
    return op->emitOpError("[constraint 2] ")
           << "the constraint " << constraint.getLayout() << " is on "
           << types[number];
  return success();
}

// 3. Ops and arguments have no other attributes of the dialect.
LogicalResult ShardingDialect::verifyOperationAttribute(Operation *op,
                                                        NamedAttribute named) {
  StringRef name = named.getName();
  if (name == constraintName)
    return verifyConstraint(op, named.getValue(), op->getResultTypes());
  if (!llvm::is_contained({meshName, compositeName, objectiveName}, name))
    return op->emitOpError(
               "[constraint 3] the sharding dialect has no attribute '")
           << name << "'";
  if (name == meshName && !isa<MeshAttr>(named.getValue()))
    return op->emitOpError("[mesh 3] ")
           << name << " is a #sharding.mesh, not " << named.getValue();
  if (name == objectiveName && !isa<ObjectiveAttr>(named.getValue()))
    return op->emitOpError("[objective 2] ")
           << name << " is a #sharding.objective, not " << named.getValue();
  return success();
}

LogicalResult ShardingDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                        unsigned argument,
                                                        NamedAttribute named) {
  if (named.getName() != constraintName)
    return op->emitOpError("[constraint 3] the sharding dialect has no "
                           "argument attribute '")
           << named.getName().getValue() << "'";
  return verifyConstraint(
      op, named.getValue(),
      cast<FunctionOpInterface>(op).getArgumentTypes()[argument]);
}
