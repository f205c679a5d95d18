// rank.gemm: a matrix product of strided operands.

#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

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
