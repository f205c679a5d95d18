// The kernel dialect: registration, properties, the text of expressions.

#include "dialects/kernel/Kernel.h"

#include "dialects/graph/Graph.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;

#include "dialects/kernel/KernelDialect.cpp.inc"

/// Loops of real kernels have up to 60 variables.
static constexpr size_t maxVariables = 64;

// Properties, as attributes and in bytecode: lists of numbers

/// The constant, then the coefficients.
static SmallVector<int64_t> toNumbers(const Affine &affine) {
  SmallVector<int64_t> numbers = {affine.constant};
  llvm::append_range(numbers, affine.coefficients);
  return numbers;
}
static LogicalResult fromNumbers(ArrayRef<int64_t> numbers, Affine &affine,
                                 function_ref<InFlightDiagnostic()> emitError) {
  if (numbers.empty())
    return emitError() << "an expression is a constant and then coefficients";
  affine.constant = numbers.front();
  affine.coefficients.assign(numbers.begin() + 1, numbers.end());
  return success();
}

/// The sizes; those of reduced variables are negated.
static SmallVector<int64_t> toNumbers(const SmallVector<Variable> &variables) {
  return llvm::map_to_vector(variables, [](Variable variable) {
    return variable.isReduced ? -variable.size : variable.size;
  });
}
static LogicalResult fromNumbers(ArrayRef<int64_t> numbers,
                                 SmallVector<Variable> &variables,
                                 function_ref<InFlightDiagnostic()>) {
  variables.clear();
  for (int64_t number : numbers)
    variables.push_back({number < 0 ? -number : number, number < 0});
  return success();
}

template <typename Property>
static LogicalResult
fromAttribute(Property &property, Attribute attribute,
              function_ref<InFlightDiagnostic()> emitError) {
  auto numbers = dyn_cast_or_null<DenseI64ArrayAttr>(attribute);
  if (!numbers)
    return emitError() << "expected a list of numbers";
  return fromNumbers(numbers.asArrayRef(), property, emitError);
}

template <typename Property>
static LogicalResult fromBytecode(DialectBytecodeReader &reader,
                                  Property &property) {
  SmallVector<int64_t> numbers;
  if (failed(reader.readSignedVarInts(numbers)))
    return failure();
  return fromNumbers(numbers, property, [&] { return reader.emitError(); });
}

Attribute kernel::convertToAttribute(MLIRContext *context,
                                     const Affine &affine) {
  return DenseI64ArrayAttr::get(context, toNumbers(affine));
}
Attribute kernel::convertToAttribute(MLIRContext *context,
                                     const SmallVector<Variable> &variables) {
  return DenseI64ArrayAttr::get(context, toNumbers(variables));
}
LogicalResult
kernel::convertFromAttribute(Affine &affine, Attribute attribute,
                             function_ref<InFlightDiagnostic()> emitError) {
  return fromAttribute(affine, attribute, emitError);
}
LogicalResult
kernel::convertFromAttribute(SmallVector<Variable> &variables,
                             Attribute attribute,
                             function_ref<InFlightDiagnostic()> emitError) {
  return fromAttribute(variables, attribute, emitError);
}
void kernel::writeToMlirBytecode(DialectBytecodeWriter &writer,
                                 const Affine &affine) {
  writer.writeSignedVarInts(toNumbers(affine));
}
void kernel::writeToMlirBytecode(DialectBytecodeWriter &writer,
                                 const SmallVector<Variable> &variables) {
  writer.writeSignedVarInts(toNumbers(variables));
}
LogicalResult kernel::readFromMlirBytecode(DialectBytecodeReader &reader,
                                           Affine &affine) {
  return fromBytecode(reader, affine);
}
LogicalResult kernel::readFromMlirBytecode(DialectBytecodeReader &reader,
                                           SmallVector<Variable> &variables) {
  return fromBytecode(reader, variables);
}

llvm::hash_code kernel::hashAffine(const Affine &affine) {
  return llvm::hash_combine(
      affine.constant, llvm::hash_combine_range(affine.coefficients.begin(),
                                                affine.coefficients.end()));
}

llvm::hash_code kernel::hashVariables(ArrayRef<Variable> variables) {
  llvm::hash_code code(0);
  for (Variable variable : variables)
    code = llvm::hash_combine(code, variable.size, variable.isReduced);
  return code;
}

// The text of expressions: `3 + d0 * 4 + d1`

static void printAffine(OpAsmPrinter &printer, Operation *,
                        const Affine &affine) {
  bool isFirst = affine.constant == 0 && !affine.isConstant();
  if (!isFirst)
    printer << affine.constant;
  for (auto [v, c] : llvm::enumerate(affine.coefficients)) {
    if (c == 0)
      continue;
    if (!isFirst)
      printer << " + ";
    isFirst = false;
    printer << "d" << v;
    if (c != 1)
      printer << " * " << c;
  }
}

/// Adds `factor` times a linear expression.
static LogicalResult addExpression(Affine &affine, AffineExpr expression,
                                   int64_t factor) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    affine.constant += factor * constant.getValue();
    return success();
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expression)) {
    affine.coefficients[dim.getPosition()] += factor;
    return success();
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary)
    return failure();
  if (binary.getKind() == AffineExprKind::Add)
    return success(succeeded(addExpression(affine, binary.getLHS(), factor)) &&
                   succeeded(addExpression(affine, binary.getRHS(), factor)));
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (binary.getKind() != AffineExprKind::Mul || !constant)
    return failure();
  return addExpression(affine, binary.getLHS(), factor * constant.getValue());
}

/// Parses as many coefficients as are mentioned: the surrounding loops add the
/// others.
static ParseResult parseAffine(OpAsmParser &parser, Affine &affine) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (size_t v = 0; v < maxVariables; ++v)
      names.push_back("d" + std::to_string(v));
    return names;
  }();
  SmallVector<std::pair<StringRef, AffineExpr>> symbols;
  for (auto [v, name] : llvm::enumerate(names))
    symbols.push_back({name, getAffineDimExpr(v, parser.getContext())});
  SMLoc location = parser.getCurrentLocation();
  AffineExpr expression;
  if (parser.parseAffineExpr(symbols, expression))
    return failure();
  affine = Affine(maxVariables);
  if (failed(addExpression(affine, expression, 1)))
    return parser.emitError(location, "is not linear in the loop variables");
  while (!affine.coefficients.empty() && affine.coefficients.back() == 0)
    affine.coefficients.pop_back();
  return success();
}

// Load

void LoadOp::build(OpBuilder &builder, OperationState &state, Value source,
                   const Affine &offset, ValueRange indices,
                   ArrayRef<int64_t> strides, Value predicate) {
  state.addOperands(source);
  state.addOperands(indices);
  if (predicate)
    state.addOperands(predicate);
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.operandSegmentSizes = {1, static_cast<int32_t>(indices.size()),
                                    predicate != nullptr};
  properties.offset = offset;
  properties.strides.assign(strides.begin(), strides.end());
  state.addTypes(cast<RankedTensorType>(source.getType()).getElementType());
}

void LoadOp::print(OpAsmPrinter &printer) {
  printer << " " << getSource() << "[";
  printAffine(printer, *this, getOffset());
  printer << "]";
  if (!getIndices().empty()) {
    printer << " + [";
    llvm::interleaveComma(llvm::zip_equal(getIndices(), getStrides()), printer,
                          [&](auto term) {
                            printer << std::get<0>(term);
                            if (std::get<1>(term) != 1)
                              printer << " * " << std::get<1>(term);
                          });
    printer << "]";
  }
  if (getPredicate())
    printer << " if " << getPredicate();
  printer.printOptionalAttrDict(
      (*this)->getDiscardableAttrDictionary().getValue());
  printer << " : " << getSource().getType();
}

ParseResult LoadOp::parse(OpAsmParser &parser, OperationState &state) {
  using Unresolved = OpAsmParser::UnresolvedOperand;
  Unresolved source, predicate;
  SmallVector<Unresolved> indices;
  Properties &properties = state.getOrAddProperties<Properties>();
  auto parseTerm = [&] {
    int64_t stride = 1;
    if (parser.parseOperand(indices.emplace_back()) ||
        (succeeded(parser.parseOptionalStar()) && parser.parseInteger(stride)))
      return ParseResult(failure());
    properties.strides.push_back(stride);
    return ParseResult(success());
  };
  if (parser.parseOperand(source) || parser.parseLSquare() ||
      parseAffine(parser, properties.offset) || parser.parseRSquare())
    return failure();
  if (succeeded(parser.parseOptionalPlus()) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseTerm))
    return failure();
  bool hasPredicate = succeeded(parser.parseOptionalKeyword("if"));
  if (hasPredicate && parser.parseOperand(predicate))
    return failure();
  RankedTensorType type;
  Builder &builder = parser.getBuilder();
  if (parser.parseOptionalAttrDict(state.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperand(source, type, state.operands) ||
      parser.resolveOperands(indices, builder.getI64Type(), state.operands) ||
      (hasPredicate &&
       parser.resolveOperand(predicate, builder.getI1Type(), state.operands)))
    return failure();
  properties.operandSegmentSizes = {1, static_cast<int32_t>(indices.size()),
                                    hasPredicate};
  state.addTypes(type.getElementType());
  return success();
}

// Loops: a list of sizes, then the body

void LoopsOp::build(OpBuilder &builder, OperationState &state,
                    TypeRange results, ValueRange arguments,
                    ArrayRef<Variable> variables) {
  state.addOperands(arguments);
  state.addTypes(results);
  state.getOrAddProperties<Properties>().variables.assign(variables.begin(),
                                                          variables.end());
  state.addRegion()->emplaceBlock();
}

void LoopsOp::print(OpAsmPrinter &printer) {
  printer << " [";
  llvm::interleaveComma(getVariables(), printer, [&](Variable variable) {
    printer << (variable.isReduced ? "reduce " : "") << variable.size;
  });
  printer << "] (";
  if (!getArguments().empty())
    printer << getArguments() << " : " << getArguments().getTypes();
  printer << ")";
  printer.printArrowTypeList(getResultTypes());
  if (getScheduleAttr())
    printer << " schedule(" << getScheduleAttr() << ")";
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getDiscardableAttrDictionary().getValue());
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/false);
}

ParseResult LoopsOp::parse(OpAsmParser &parser, OperationState &state) {
  Properties &properties = state.getOrAddProperties<Properties>();
  SmallVector<OpAsmParser::UnresolvedOperand> arguments;
  SmallVector<Type> types;
  auto parseVariable = [&] {
    Variable &variable = properties.variables.emplace_back();
    variable.isReduced = succeeded(parser.parseOptionalKeyword("reduce"));
    return parser.parseInteger(variable.size);
  };
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     parseVariable) ||
      parser.parseLParen() || parser.parseOperandList(arguments) ||
      (!arguments.empty() && parser.parseColonTypeList(types)) ||
      parser.parseRParen() ||
      parser.resolveOperands(arguments, types, location, state.operands) ||
      parser.parseArrowTypeList(state.types))
    return failure();
  if (properties.variables.size() > maxVariables)
    return parser.emitError(location)
           << "has " << properties.variables.size()
           << " variables; there may be " << maxVariables;
  if (succeeded(parser.parseOptionalKeyword("schedule")) &&
      (parser.parseLParen() || parser.parseAttribute(properties.schedule) ||
       parser.parseRParen()))
    return failure();
  Region *body = state.addRegion();
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes) ||
      parser.parseRegion(*body))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  size_t count = properties.variables.size();
  for (Operation &op : body->front())
    if (Affine *expression = getExpression(&op))
      if (expression->coefficients.size() < count)
        expression->coefficients.resize(count);
  return success();
}

/// Parses and prints `type` or `type into accumulator`.
static ParseResult parseReducedTypes(OpAsmParser &parser, Type &input,
                                     Type &result) {
  if (parser.parseType(input))
    return failure();
  result = input;
  return succeeded(parser.parseOptionalKeyword("into"))
             ? parser.parseType(result)
             : success();
}
static void printReducedTypes(OpAsmPrinter &printer, Operation *, Type input,
                              Type result) {
  printer << input;
  if (result != input)
    printer << " into " << result;
}

#define GET_OP_CLASSES
#include "dialects/kernel/KernelOps.cpp.inc"

void KernelDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/kernel/KernelOps.cpp.inc"
      >();
}
