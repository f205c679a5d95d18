// Verifiers and textual forms of the rank dialect's ops.

#include "dialects/rank/Rank.h"

#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

/// `[0:0, 1:0]`: pairs of a segment and a microbatch.
static ParseResult parseSchedule(OpAsmParser &parser,
                                 DenseI64ArrayAttr &schedule) {
  SmallVector<int64_t> numbers;
  auto parsePair = [&]() -> ParseResult {
    return failure(parser.parseInteger(numbers.emplace_back()) ||
                   parser.parseColon() ||
                   parser.parseInteger(numbers.emplace_back()));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parsePair))
    return failure();
  schedule = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printSchedule(OpAsmPrinter &printer, Operation *,
                          DenseI64ArrayAttr schedule) {
  ArrayRef<int64_t> numbers = schedule;
  printer << "[";
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    printer << (i ? ", " : "") << numbers[i] << ":" << numbers[i + 1];
  printer << "]";
}

#define GET_OP_CLASSES
#include "dialects/rank/RankOps.cpp.inc"

void RankDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "dialects/rank/RankOps.cpp.inc"
      >();
}

// Commands

#include "dialects/rank/CommandInterface.cpp.inc"

LogicalResult rank::verifyBuffers(Operation *op) {
  ArrayAttr buffers = cast<CommandOp>(op).getBuffersAttr();
  if (buffers && buffers.size() != op->getNumResults())
    return op->emitOpError("[1] has ") << buffers.size() << " buffers for "
                                       << op->getNumResults() << " results";
  return success();
}

BufferAttr CommandOp::getBuffer(unsigned result) {
  ArrayAttr buffers = getBuffersAttr();
  return buffers ? cast<BufferAttr>(buffers[result]) : BufferAttr();
}

BufferAttr rank::getBuffer(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    auto command = dyn_cast<CommandOp>(result.getOwner());
    return command ? command.getBuffer(result.getResultNumber()) : BufferAttr();
  }
  auto argument = cast<BlockArgument>(value);
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto segment = dyn_cast<SegmentOp>(parent)) {
    auto loop = cast<MicrobatchesOp>(segment->getParentOp());
    MicrobatchesOp::Source source = loop.getSource(argument);
    BufferAttr buffer = getBuffer(source.value);
    return buffer && source.isSlice
               ? buffer.getElement(getByteSize(argument.getType()),
                                   source.slots)
               : buffer;
  }
  if (auto loop = dyn_cast<LoopOp>(parent)) {
    LoopOp::Source source = loop.getSource(argument);
    BufferAttr buffer = getBuffer(source.value);
    return buffer && source.isElement ? loop.getElementBuffer(buffer, argument)
                                      : buffer;
  }
  return cast<FunctionOpInterface>(parent).getArgAttrOfType<BufferAttr>(
      argument.getArgNumber(), bufferAttrName);
}

std::optional<int64_t> CommandOp::getViewOffset(unsigned number,
                                                int64_t device) {
  std::optional<View> view = getView(number);
  if (!view || !view->axes)
    return view ? std::optional(view->begin) : std::nullopt;
  // A block of a value that is completely in the arena is a view of it.
  Operation *op = getOperation();
  BufferAttr operand = rank::getBuffer(op->getOperand(view->operand)),
             result = rank::getBuffer(op->getResult(number));
  int64_t bytes = getByteSize(op->getResult(number).getType());
  if (!operand || !result || operand.getAxes() ||
      result != operand.getBlock(view->axes, bytes))
    return std::nullopt;
  return view->axes.getMesh().getLinearIndex(device, view->axes.getAxes()) *
         bytes;
}

/// The blocks of a dim are contiguous if all dims before it have size 1.
std::optional<View> rank::SliceOp::getView(unsigned) {
  ArrayRef<int64_t> shape = getInput().getType().getShape();
  bool isMajor = llvm::all_of(shape.take_front(getDim()),
                              [](int64_t size) { return size == 1; });
  return isMajor ? std::optional(View{0, 0, getAxes()}) : std::nullopt;
}

std::optional<View> ViewOp::getView(unsigned) {
  return View{0, static_cast<int64_t>(getOffset()) *
                     getElementByteSize(getType().getElementType())};
}

/// The results are the tensors that were in flight.
std::optional<View> WaitOp::getView(unsigned result) { return View{result}; }

runtime::InPlace LaunchOp::getInPlace(unsigned operand, unsigned result) {
  auto kernel =
      SymbolTable::lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  return llvm::is_contained(kernel.getInPlace(result), operand)
             ? runtime::InPlace::Same
             : runtime::InPlace::Never;
}

// Local data movement

LogicalResult rank::takeBlock(Operation *op, SmallVectorImpl<int64_t> &shape,
                              int64_t dim, int64_t groupSize) {
  if (shape[dim] % groupSize != 0)
    return op->emitOpError("[1] dim ")
           << dim << " of size " << shape[dim]
           << " has no equal blocks for a group of " << groupSize;
  shape[dim] /= groupSize;
  return success();
}

LogicalResult rank::SliceOp::verify() {
  RankedTensorType input = getInput().getType();
  if (static_cast<int64_t>(getDim()) >= input.getRank())
    return emitOpError("[1] dim ") << getDim() << " is not a dim of " << input;
  SmallVector<int64_t> shape(input.getShape());
  if (failed(takeBlock(*this, shape, getDim(), getAxes().getGroupSize())))
    return failure();
  auto type = RankedTensorType::get(shape, input.getElementType());
  if (getResult().getType() != type)
    return emitOpError("[1] result is ")
           << getResult().getType() << "; it must be " << type;
  return success();
}

LogicalResult ViewOp::verify() {
  RankedTensorType input = getInput().getType(), result = getResult().getType();
  if (input.getElementType() != result.getElementType())
    return emitOpError("[1] changes the element type from ")
           << input.getElementType() << " to " << result.getElementType();
  int64_t offset = getOffset();
  if (offset < 0 || offset + result.getNumElements() > input.getNumElements())
    return emitOpError("[2] elements [")
           << offset << ", " << offset + result.getNumElements()
           << ") lie outside the operand's " << input.getNumElements();
  return success();
}

LogicalResult CopyOp::verify() {
  if (getInput().getType() != getResult().getType())
    return emitOpError("[2] changes the type from ")
           << getInput().getType() << " to " << getResult().getType();
  return success();
}

LogicalResult WaitOp::verify() {
  auto collective = getPending().empty()
                        ? CollectiveOp()
                        : getPending().front().getDefiningOp<CollectiveOp>();
  if (!collective || ValueRange(getPending()) != collective->getResults())
    return emitOpError("[1] waits for what is not all results of one "
                       "collective");
  if (ValueRange(getOf()) != collective->getOperands())
    return emitOpError("[2] names other operands than the collective has");
  for (auto [pending, type] :
       llvm::zip_equal(getPending().getTypes(), getResultTypes()))
    if (getTensorType(pending) != type)
      return emitOpError("[3] makes ") << type << " of " << pending;
  if (collective->getBlock() != (*this)->getBlock())
    return emitOpError("[4] waits in another block than its collective stands "
                       "in");
  return success();
}

// Kernels

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     FunctionType type) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addRegion();
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto type = [](Builder &builder, ArrayRef<Type> arguments,
                 ArrayRef<Type> results, function_interface_impl::VariadicFlag,
                 std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), type,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

ArrayRef<int64_t> KernelOp::getInPlace(unsigned result) {
  if (!getInPlace())
    return {};
  return cast<DenseI64ArrayAttr>((*getInPlace())[result]).asArrayRef();
}

LogicalResult KernelOp::verify() {
  auto terminator = dyn_cast_if_present<rank::ReturnOp>(
      getBody().empty() || getBody().front().empty()
          ? nullptr
          : &getBody().front().back());
  if (!terminator ||
      TypeRange(terminator.getOperandTypes()) != TypeRange(getResultTypes()))
    return emitOpError("[1] must end in a return of its result types");
  for (Type type :
       llvm::concat<const Type>(getArgumentTypes(), getResultTypes()))
    if (!isa<RankedTensorType>(type) || sharding::getLayout(type))
      return emitOpError("[3] has ") << type << "; it takes local tensors";
  if (std::optional<ArrayAttr> inPlace = getInPlace()) {
    if (inPlace->size() != getResultTypes().size())
      return emitOpError("[2] in_place has ")
             << inPlace->size() << " lists for " << getResultTypes().size()
             << " results";
    for (auto [list, type] : llvm::zip_equal(*inPlace, getResultTypes())) {
      auto arguments = dyn_cast<DenseI64ArrayAttr>(list);
      if (!arguments)
        return emitOpError("[2] in_place is a list of array<i64: ..>");
      for (int64_t argument : arguments.asArrayRef())
        if (argument < 0 ||
            argument >= static_cast<int64_t>(getArgumentTypes().size()) ||
            getByteSize(getArgumentTypes()[argument]) < getByteSize(type))
          return emitOpError("[2] argument ")
                 << argument << " has no room for a result of type " << type;
    }
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("[1] no kernel is called ") << getKernelAttr();
  if (kernel.getFunctionType() !=
      FunctionType::get(getContext(), getOperandTypes(), getResultTypes()))
    return emitOpError("[1] ")
           << getKernelAttr() << " has type " << kernel.getFunctionType();
  return success();
}
