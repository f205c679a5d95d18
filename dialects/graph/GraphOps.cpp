// The generated op classes of the graph dialect, in a translation unit of
// their own.

#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank::graph;

#include "dialects/graph/GraphEnums.cpp.inc"

LogicalResult ParameterOp::verify() {
  if (!getComplex())
    return success();
  auto type = cast<RankedTensorType>(getType());
  auto part = dyn_cast<FloatType>(type.getElementType());
  if (!part || part.getWidth() < 32)
    return emitOpError("[1] of complex numbers has parts of f32 or f64, not ")
           << type.getElementType();
  if (type.getRank() == 0 || type.getShape().back() != 2)
    return emitOpError("[2] of complex numbers has a last dim of 2, and is ")
           << type;
  if (getTransposed())
    return emitOpError("[3] of complex numbers is not stored transposed");
  if (getTrainable())
    return emitOpError("[4] of complex numbers is not trained");
  return success();
}

// Types in the text of ops: printed once if they are all the same.

static ParseResult parseAlikeTypes(OpAsmParser &parser,
                                   ArrayRef<Type *> operands, Type &result) {
  if (failed(parser.parseOptionalLParen())) {
    if (parser.parseType(result))
      return failure();
    for (Type *operand : operands)
      *operand = result;
    return success();
  }
  for (auto [i, operand] : llvm::enumerate(operands))
    if ((i && parser.parseComma()) || parser.parseType(*operand))
      return failure();
  return failure(parser.parseRParen() || parser.parseArrow() ||
                 parser.parseType(result));
}

static ParseResult parseAlikeTypes(OpAsmParser &parser, Type &operand,
                                   Type &result) {
  return parseAlikeTypes(parser, {&operand}, result);
}

static ParseResult parseAlikeTypes(OpAsmParser &parser, Type &lhs, Type &rhs,
                                   Type &result) {
  return parseAlikeTypes(parser, {&lhs, &rhs}, result);
}

static void printAlikeTypes(OpAsmPrinter &printer, ArrayRef<Type> operands,
                            Type result) {
  if (llvm::all_of(operands, [&](Type type) { return type == result; }))
    printer << result;
  else
    printer.printFunctionalType(operands, ArrayRef(result));
}

static void printAlikeTypes(OpAsmPrinter &printer, Operation *, Type operand,
                            Type result) {
  printAlikeTypes(printer, ArrayRef(operand), result);
}

static void printAlikeTypes(OpAsmPrinter &printer, Operation *, Type lhs,
                            Type rhs, Type result) {
  printAlikeTypes(printer, {lhs, rhs}, result);
}

/// `dense<1.0> : tensor<4xf32, #layout>`: the type is that of the result; the
/// value's type is the same without a layout.
static ParseResult parseTypedValue(OpAsmParser &parser, ElementsAttr &value,
                                   Type &type) {
  SMLoc start = parser.getCurrentLocation();
  DenseElementsAttr dense;
  if (parser.parseAttribute(dense))
    return failure();
  auto tensor = dyn_cast<RankedTensorType>(dense.getType());
  if (!tensor)
    return parser.emitError(start, "is no tensor");
  type = tensor;
  value = dense.reshape(
      RankedTensorType::get(tensor.getShape(), tensor.getElementType()));
  return success();
}

static void printTypedValue(OpAsmPrinter &printer, Operation *,
                            ElementsAttr value, Type type) {
  printer.printAttributeWithoutType(value);
  printer << " : " << type;
}

#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.cpp.inc"

void GraphDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialects/graph/GraphOps.cpp.inc"
      >();
}
