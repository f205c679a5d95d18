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

runtime::InPlace GemmOp::getInPlace(unsigned operand, unsigned) {
  return getAddend() && operand == getAddendMutable()[0].getOperandNumber()
             ? runtime::InPlace::Same
             : runtime::InPlace::Never;
}

static GemmOp::Form getForm(ArrayRef<int64_t> access, int64_t columns) {
  bool rowMajor = access[2] == 1 && access[1] >= columns;
  return {!rowMajor, rowMajor ? access[1] : access[2]};
}
GemmOp::Form GemmOp::getAForm() { return getForm(getAAccess(), getK()); }
GemmOp::Form GemmOp::getBForm() { return getForm(getBAccess(), getN()); }

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

// Gemm

SmallVector<GemmOp::BatchDim> GemmOp::getBatchDims() {
  SmallVector<BatchDim> dims;
  for (ArrayRef<int64_t> rest = getBatch(); !rest.empty();
       rest = rest.drop_front(4))
    dims.push_back({rest[0], rest[1], rest[2], rest[3]});
  return dims;
}

int64_t GemmOp::getFlops() {
  int64_t flops = 2 * getM() * getN() * getK();
  if (!getGrouped())
    for (BatchDim dim : getBatchDims())
      flops *= dim.count;
  return flops;
}

/// Condition 7.
static LogicalResult verifyGroups(GemmOp op) {
  if (!op.getGrouped()) {
    if (op.getGroups())
      return op.emitOpError("[7] has groups and is not grouped");
    return success();
  }
  bool ofRows = op.getGrouped() == Grouped::Rows;
  auto isOf = [](Value numbers, int64_t count) {
    auto type = numbers ? cast<RankedTensorType>(numbers.getType()) : nullptr;
    return type && type.getElementType().isInteger(64) &&
           type.getNumElements() == count;
  };
  SmallVector<GemmOp::BatchDim> batch = op.getBatchDims();
  if (batch.size() != 1 || !isOf(op.getIds(), batch[0].count))
    return op.emitOpError("[7] has no ids for its one batch dim");
  if (!isOf(op.getGroups(), ofRows ? op.getM() : op.getK()))
    return op.emitOpError("[7] has no group for each ")
           << (ofRows ? "row" : "element of the inner dim");
  return success();
}

LogicalResult GemmOp::verify() {
  for (Value operand : {getA(), getB(), getAddend(), getResult()})
    if (operand &&
        !cast<RankedTensorType>(operand.getType()).getElementType().isF32())
      return emitOpError("[1] operand of type ")
             << operand.getType() << "; the library multiplies f32";
  if (getAAccess().size() != 3 || getBAccess().size() != 3 ||
      getSizes().size() != 3)
    return emitOpError("accesses are [offset, row, column], sizes [m, n, k]");
  if (getBatch().size() % 4 != 0)
    return emitOpError("[6] batch has ")
           << getBatch().size() << " numbers; four per dim";
  if (llvm::any_of(getSizes(), [](int64_t size) { return size < 1; }))
    return emitOpError("sizes are positive");
  SmallVector<BatchDim> batch = getBatchDims();
  if (failed(verifyGroups(*this)))
    return failure();

  auto verifyOperand =
      [&](StringRef name, Value operand, ArrayRef<int64_t> access, int64_t rows,
          int64_t columns, int64_t BatchDim::*stride) -> LogicalResult {
    int64_t rowStride = access[1], columnStride = access[2];
    bool rowMajor = (columnStride == 1 || columns == 1) &&
                    (rowStride >= columns || rows == 1);
    bool columnMajor =
        (rowStride == 1 || rows == 1) && (columnStride >= rows || columns == 1);
    if (!rowMajor && !columnMajor)
      return emitOpError("[2] strides ")
             << rowStride << " and " << columnStride << " of " << name
             << " are those of no matrix of " << rows << "x" << columns;
    int64_t first = access[0];
    int64_t last =
        first + (rows - 1) * rowStride + (columns - 1) * columnStride;
    for (const BatchDim &dim : batch)
      last += (dim.count - 1) * (dim.*stride);
    bool negative = rowStride < 0 || columnStride < 0 || first < 0 ||
                    llvm::any_of(
                        batch,
                        [&](const BatchDim &dim) {
                          return dim.count < 1 || dim.*stride < 0;
                        });
    int64_t size = cast<RankedTensorType>(operand.getType()).getNumElements();
    if (negative || last >= size)
      return emitOpError("[3] reads element ")
             << last << " of " << name << ", which has " << size;
    return success();
  };
  if (failed(verifyOperand("a", getA(), getAAccess(), getM(), getK(),
                           &BatchDim::aStride)) ||
      failed(verifyOperand("b", getB(), getBAccess(), getK(), getN(),
                           &BatchDim::bStride)))
    return failure();

  // The loops that write the result are the digits of its element numbers.
  SmallVector<std::pair<int64_t, int64_t>> loops = {
      {1, getN()}, {static_cast<int64_t>(getRow()), getM()}};
  for (const BatchDim &dim : batch)
    loops.push_back({dim.resultStride, dim.count});
  if (getGrouped() == Grouped::Rows && loops.pop_back_val().first != 0)
    return emitOpError("[4] a grouped row is in one place, whatever its group");
  llvm::erase_if(loops, [](auto loop) { return loop.second == 1; });
  llvm::sort(loops);
  int64_t next = 1;
  for (auto [stride, count] : loops) {
    if (stride != next)
      return emitOpError("[4] a loop of ")
             << count << " writes the result with stride " << stride
             << " where " << next << " elements are covered";
    next *= count;
  }
  auto result = cast<RankedTensorType>(getResult().getType());
  if (next != result.getNumElements())
    return emitOpError("[4] writes ")
           << next << " of " << result.getNumElements() << " elements";
  if (getAddend() && getAddend().getType() != result)
    return emitOpError("[5] addend is ")
           << getAddend().getType() << ", the result " << result;
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
