// rank.gemm: a matrix product of strided operands.

#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

std::optional<unsigned> GemmOp::getAddendNumber() {
  if (!getAddend())
    return std::nullopt;
  return getAddendMutable()[0].getOperandNumber();
}

runtime::InPlace GemmOp::getInPlace(unsigned operand, unsigned) {
  return getAddendNumber() == operand ? runtime::InPlace::Same
                                      : runtime::InPlace::Never;
}

int64_t GemmOp::getReadBegin(unsigned operand) {
  if (operand > 1)
    return 0;
  return (operand == 0 ? getAAccess() : getBAccess())[0] *
         getElementByteSize(getElementType());
}

static GemmOp::Form getForm(ArrayRef<int64_t> access, int64_t columns) {
  bool rowMajor = access[2] == 1 && access[1] >= columns;
  return {!rowMajor, rowMajor ? access[1] : access[2]};
}
GemmOp::Form GemmOp::getAForm() { return getForm(getAAccess(), getK()); }
GemmOp::Form GemmOp::getBForm() { return getForm(getBAccess(), getN()); }

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

/// The elements of an operand that a GEMM reads if no two products of a batch
/// dim with a stride read the same ones; of a small operand all.
static int64_t countReads(Value operand, int64_t elements, GemmOp gemm,
                          int64_t GemmOp::BatchDim::*stride) {
  for (const GemmOp::BatchDim &dim : gemm.getBatchDims())
    if (dim.*stride != 0)
      elements *= dim.count;
  return std::min(elements,
                  cast<RankedTensorType>(operand.getType()).getNumElements());
}

int64_t GemmOp::getBytes() {
  int64_t read =
      countReads(getA(), getM() * getK(), *this, &BatchDim::aStride) +
      countReads(getB(), getK() * getN(), *this, &BatchDim::bStride);
  int64_t bytes = read * getElementByteSize(getElementType()) +
                  getByteSize(getResult().getType());
  for (Value other : {getAddend(), getGroups(), getIds()})
    if (other)
      bytes += getByteSize(other.getType());
  return bytes;
}

Attribute GemmOp::getKey() {
  MLIRContext *context = getContext();
  Form a = getAForm(), b = getBForm();
  SmallVector<int64_t> numbers(getSizes());
  numbers.append({a.isTransposed, a.leading, b.isTransposed, b.leading,
                  static_cast<int64_t>(getRow()), getAddend() != nullptr});
  llvm::append_range(numbers, getBatch());
  auto typeOf = [](Type type) -> Attribute { return TypeAttr::get(type); };
  return ArrayAttr::get(
      context, {StringAttr::get(context, getOperationName()),
                DenseI64ArrayAttr::get(context, numbers), getAlphaAttr(),
                typeOf(getElementType()), typeOf(getAccumulatorType()),
                typeOf(getResult().getType().getElementType()),
                getGroupedAttr() ? Attribute(getGroupedAttr())
                                 : Attribute(UnitAttr::get(context))});
}

std::string GemmOp::getText() {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "gemm " << getM() << "x" << getN() << "x" << getK()
      << (getAForm().isTransposed ? " A^T" : "")
      << (getBForm().isTransposed ? " B^T" : "");
  for (const BatchDim &dim : getBatchDims())
    out << " *" << dim.count;
  if (getGrouped())
    out << " grouped " << stringifyGrouped(*getGrouped());
  // Elements that are added as they are need no word.
  Type element = getElementType(),
       result = getResult().getType().getElementType();
  if (getAccumulatorType() != element) {
    out << " " << element;
    if (result != element)
      out << " to " << result;
  }
  if (getAddend())
    out << " +=";
  return text;
}

LogicalResult GemmOp::evaluate(ArrayRef<graph::Tensor> operands,
                               MutableArrayRef<graph::Tensor> results) {
  const graph::Tensor &left = operands[0], &right = operands[1];
  graph::Tensor &result = results[0];
  if (std::optional<unsigned> addend = getAddendNumber())
    result = operands[*addend];
  SmallVector<BatchDim> batch = getBatchDims();
  SmallVector<int64_t> counts =
      llvm::map_to_vector(batch, [](const BatchDim &dim) { return dim.count; });
  double alpha = getAlpha().convertToDouble();
  ArrayRef<int64_t> a = getAAccess(), b = getBAccess();
  graph::forEachIndex(counts, [&](ArrayRef<int64_t> index) {
    int64_t startA = a[0], startB = b[0], start = 0;
    for (auto [i, dim] : llvm::zip_equal(index, batch)) {
      startA += i * dim.aStride;
      startB += i * dim.bStride;
      start += i * dim.resultStride;
    }
    auto rows = llvm::to_vector(llvm::seq(getM())),
         inner = llvm::to_vector(llvm::seq(getK()));
    if (getGrouped()) {
      const graph::Tensor &groups =
          operands[getGroupsMutable()[0].getOperandNumber()];
      int64_t id =
          operands[getIdsMutable()[0].getOperandNumber()].integers[index[0]];
      bool ofRows = getGrouped() == Grouped::Rows;
      llvm::erase_if(ofRows ? rows : inner, [&](int64_t number) {
        return groups.integers[number] != id;
      });
    }
    for (int64_t i : rows)
      for (int64_t j = 0; j < getN(); ++j) {
        double sum = 0;
        for (int64_t l : inner)
          sum += left.floats[startA + i * a[1] + l * a[2]] *
                 right.floats[startB + l * b[1] + j * b[2]];
        result.floats[start + i * getRow() + j] += alpha * sum;
      }
  });
  return success();
}

/// Condition 1.
static LogicalResult verifyTypes(GemmOp op) {
  Type element = op.getElementType(), accumulator = op.getAccumulatorType(),
       other = op.getB().getType().getElementType(),
       result = op.getResult().getType().getElementType();
  if (!isa<FloatType>(element) || element != other)
    return op.emitOpError("[1] multiplies ")
           << element << " by " << other << "; both are of one float type";
  if (accumulator != element &&
      accumulator.getIntOrFloatBitWidth() <= element.getIntOrFloatBitWidth())
    return op.emitOpError("[1] adds products of ")
           << element << " in " << accumulator << ", which is no wider type";
  if (result != element && result != accumulator)
    return op.emitOpError("[1] gives ")
           << result << "; what is multiplied is " << element
           << ", and added in " << accumulator;
  return success();
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
  if (failed(verifyTypes(*this)))
    return failure();
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
