// Collectives: the result shapes of each kind, and the layout of their bytes.

#include "dialects/graph/Blocks.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Reason.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;
using runtime::TransferShape;

#include "dialects/rank/CollectiveInterface.cpp.inc"

// The interface

runtime::InPlace CollectiveOp::getInPlace(unsigned number) {
  return runtime::inPlaceOf(getCollectiveKind(),
                            getTransferShape(number).outer);
}

int64_t CollectiveOp::getBlockBytes(unsigned number) {
  return std::min(getByteSize((*this)->getOperand(number).getType()),
                  getByteSize((*this)->getResult(number).getType()));
}

uint64_t CollectiveOp::getSentBytes() {
  ArrayRef<int64_t> sources = getSourceMembers();
  bool moves = sources.empty();
  for (auto [member, source] : llvm::enumerate(sources))
    moves |= static_cast<int64_t>(member) != source;
  uint64_t bytes = 0;
  for (auto [input, output] :
       llvm::zip_equal((*this)->getOperandTypes(), (*this)->getResultTypes()))
    if (moves)
      bytes += runtime::sentBytes(getCollectiveKind(), getAxes().getGroupSize(),
                                  getByteSize(input), getByteSize(output));
  return bytes;
}

static runtime::Reduction getReductionOf(sharding::ReductionKind kind) {
  switch (kind) {
  case sharding::ReductionKind::Sum:
    return runtime::Reduction::Sum;
  case sharding::ReductionKind::Max:
    return runtime::Reduction::Max;
  case sharding::ReductionKind::Min:
    return runtime::Reduction::Min;
  }
  llvm_unreachable("a kind of reduction");
}
runtime::Reduction AllReduceOp::getReduction() {
  return getReductionOf(getKind());
}
runtime::Reduction ReduceScatterOp::getReduction() {
  return getReductionOf(getKind());
}

/// The number of elements in dims [begin, end).
static int64_t extent(Type type, int64_t begin, int64_t end) {
  int64_t product = 1;
  for (int64_t size :
       cast<ShapedType>(type).getShape().slice(begin, end - begin))
    product *= size;
  return product;
}

/// One row of blocks of dim `dim` for each index of the dims before it.
static TransferShape getRows(Type block, int64_t dim) {
  TransferShape shape;
  shape.outer = extent(block, 0, dim);
  shape.inner = extent(block, dim, cast<ShapedType>(block).getRank());
  return shape;
}

/// The borders of a dim, in elements, include the dims after it.
template <typename OpType>
static TransferShape getBorders(OpType op, Type block, unsigned number) {
  int64_t dim = op.getDims()[number];
  int64_t row = extent(block, dim + 1, cast<ShapedType>(block).getRank());
  TransferShape shape = getRows(block, dim);
  shape.low = op.getLow()[number] * row;
  shape.high = op.getHigh()[number] * row;
  return shape;
}

TransferShape ReduceScatterOp::getTransferShape(unsigned number) {
  return getRows(getTensorType(getResult(number).getType()), getDims()[number]);
}
TransferShape AllGatherOp::getTransferShape(unsigned number) {
  return getRows(getOperand(number).getType(), getDims()[number]);
}
TransferShape HaloOp::getTransferShape(unsigned number) {
  return getBorders(*this, getOperand(number).getType(), number);
}
TransferShape HaloAddOp::getTransferShape(unsigned number) {
  return getBorders(*this, getTensorType(getResult(number).getType()), number);
}
TransferShape AllToAllOp::getTransferShape(unsigned number) {
  auto type = cast<ShapedType>(getOperand(number).getType());
  int64_t split = getSplit()[number], concat = getConcat()[number];
  int64_t first = std::min(split, concat), second = std::max(split, concat);
  TransferShape shape;
  shape.outer = extent(type, 0, first);
  shape.x = type.getDimSize(first);
  shape.middle = extent(type, first + 1, second);
  shape.y = type.getDimSize(second);
  shape.inner = extent(type, second + 1, type.getRank());
  shape.splitFirst = split < concat;
  return shape;
}

// Values

graph::Tensor AllReduceOp::evaluate(ArrayRef<graph::Tensor> parts, int64_t me,
                                    unsigned number) {
  return graph::reduce(parts, getKind());
}
graph::Tensor ReduceScatterOp::evaluate(ArrayRef<graph::Tensor> parts,
                                        int64_t me, unsigned number) {
  return graph::blockOf(graph::reduce(parts, getKind()), getDims()[number],
                        parts.size(), me);
}
graph::Tensor AllGatherOp::evaluate(ArrayRef<graph::Tensor> parts, int64_t me,
                                    unsigned number) {
  return graph::join(parts, getDims()[number]);
}
graph::Tensor AllToAllOp::evaluate(ArrayRef<graph::Tensor> parts, int64_t me,
                                   unsigned number) {
  SmallVector<graph::Tensor> blocks;
  for (const graph::Tensor &part : parts)
    blocks.push_back(
        graph::blockOf(part, getSplit()[number], parts.size(), me));
  return graph::join(blocks, getConcat()[number]);
}
graph::Tensor PermuteOp::evaluate(ArrayRef<graph::Tensor> parts, int64_t me,
                                  unsigned number) {
  return parts[getSources()[me]];
}
graph::Tensor HaloOp::evaluate(ArrayRef<graph::Tensor> parts, int64_t me,
                               unsigned number) {
  return graph::widen(parts, me, getDims()[number], getLow()[number],
                      getHigh()[number]);
}
graph::Tensor HaloAddOp::evaluate(ArrayRef<graph::Tensor> parts, int64_t me,
                                  unsigned number) {
  return graph::addOverlaps(parts, me, getDims()[number], getLow()[number],
                            getHigh()[number]);
}
graph::Tensor BroadcastOp::evaluate(ArrayRef<graph::Tensor> parts, int64_t me,
                                    unsigned number) {
  return parts.front();
}

// Verifiers

/// Checks that result i has the shape that `expected` derives from operand i's.
static LogicalResult
verifyShapes(Operation *op, ArrayRef<ArrayRef<int64_t>> dimLists,
             function_ref<LogicalResult(unsigned, SmallVectorImpl<int64_t> &)>
                 expected) {
  if (op->getNumOperands() == 0 || op->getNumOperands() != op->getNumResults())
    return op->emitOpError("[1] has ")
           << op->getNumOperands() << " operands and " << op->getNumResults()
           << " results; each operand becomes one result";
  if (failed(sharding::verifyReason(
          op,
          cast<CollectiveOp>(op).getWhy().value_or(sharding::ReasonAttr()))))
    return failure();
  for (ArrayRef<int64_t> dims : dimLists) {
    if (dims.size() != op->getNumOperands())
      return op->emitOpError("[1] has ") << dims.size() << " dims for "
                                         << op->getNumOperands() << " operands";
    for (auto [dim, type] : llvm::zip_equal(dims, op->getOperandTypes()))
      if (dim < 0 || dim >= cast<RankedTensorType>(type).getRank())
        return op->emitOpError("[1] dim ")
               << dim << " is not a dim of " << type;
  }
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    auto input = cast<RankedTensorType>(op->getOperand(i).getType());
    RankedTensorType output = getTensorType(op->getResult(i).getType());
    if (isa<PendingType>(op->getResult(i).getType()) !=
        cast<CollectiveOp>(op).isStarted())
      return op->emitOpError("[1] result ")
             << i << " is " << op->getResult(i).getType()
             << ", but result 0 is " << op->getResult(0).getType()
             << "; all are in flight or none";
    SmallVector<int64_t> shape(input.getShape());
    if (failed(expected(i, shape)))
      return failure();
    auto type = RankedTensorType::get(shape, input.getElementType());
    if (output != type)
      return op->emitOpError("[1] result ")
             << i << " is " << output << "; it must be " << type;
  }
  return success();
}

static LogicalResult verifySameTypes(Operation *op) {
  return verifyShapes(op, {}, [](unsigned, auto &) { return success(); });
}

LogicalResult AllReduceOp::verify() { return verifySameTypes(*this); }
LogicalResult BroadcastOp::verify() { return verifySameTypes(*this); }

LogicalResult ReduceScatterOp::verify() {
  return verifyShapes(*this, {getDims()}, [&](unsigned i, auto &shape) {
    return takeBlock(*this, shape, getDims()[i], getAxes().getGroupSize());
  });
}

LogicalResult AllGatherOp::verify() {
  return verifyShapes(*this, {getDims()}, [&](unsigned i, auto &shape) {
    shape[getDims()[i]] *= getAxes().getGroupSize();
    return success();
  });
}

LogicalResult AllToAllOp::verify() {
  return verifyShapes(
      *this, {getSplit(), getConcat()},
      [&](unsigned i, auto &shape) -> LogicalResult {
        if (getSplit()[i] == getConcat()[i])
          return emitOpError("[1] splits and concatenates the same dim ")
                 << getSplit()[i];
        shape[getConcat()[i]] *= getAxes().getGroupSize();
        return takeBlock(*this, shape, getSplit()[i], getAxes().getGroupSize());
      });
}

/// Checks that results are wider by the borders or, with `sign` -1, narrower.
template <typename OpType>
static LogicalResult verifyBorders(OpType op, int64_t sign) {
  return verifyShapes(
      op, {op.getDims()}, [&](unsigned i, auto &shape) -> LogicalResult {
        ArrayRef<int64_t> low = op.getLow(), high = op.getHigh();
        if (low.size() != op->getNumOperands() ||
            high.size() != op->getNumOperands())
          return op.emitOpError("[1] has ")
                 << low.size() << " and " << high.size() << " borders for "
                 << op->getNumOperands() << " operands";
        if (low[i] < 0 || high[i] < 0)
          return op.emitOpError("[2] has borders of ")
                 << low[i] << " and " << high[i] << " elements";
        shape[op.getDims()[i]] += sign * (low[i] + high[i]);
        return success();
      });
}
LogicalResult HaloOp::verify() { return verifyBorders(*this, 1); }
LogicalResult HaloAddOp::verify() { return verifyBorders(*this, -1); }

LogicalResult PermuteOp::verify() {
  int64_t size = getAxes().getGroupSize();
  if (static_cast<int64_t>(getSources().size()) != size)
    return emitOpError("[2] has ")
           << getSources().size() << " sources for a group of " << size;
  SmallVector<bool> taken(size, false);
  for (int64_t source : getSources()) {
    if (source < 0 || source >= size)
      return emitOpError("[2] source ")
             << source << " is not in a group of " << size;
    if (taken[source])
      return emitOpError("[2] takes from member ") << source << " twice";
    taken[source] = true;
  }
  return verifySameTypes(*this);
}
