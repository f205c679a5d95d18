// Reads queries, keys and values through the ops that exporters put between.

#include "compiler/training/AttentionOperands.h"

#include "compiler/training/Compact.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getShape;

int64_t training::sizeOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  int64_t size = 1;
  for (int64_t dim : dims)
    size *= shape[dim];
  return size;
}

Value training::readFactor(Operation *op, double &factor) {
  if (isa_and_nonnull<graph::NegOp>(op)) {
    factor = -1;
    return op->getOperand(0);
  }
  if (!isa_and_nonnull<graph::MulOp, graph::DivOp>(op))
    return {};
  std::optional<double> number = graph::getSplat(op->getOperand(1));
  if (number) {
    factor = isa<graph::MulOp>(op) ? *number : 1 / *number;
    return op->getOperand(0);
  }
  number = graph::getSplat(op->getOperand(0));
  if (!number || isa<graph::DivOp>(op))
    return {};
  factor = *number;
  return op->getOperand(1);
}

Value training::withoutFactors(OpBuilder &builder, Value value, double &scale) {
  Operation *op = value.getDefiningOp();
  double factor = 1;
  if (Value rest = readFactor(op, factor)) {
    scale *= factor;
    return withoutFactors(builder, rest, scale);
  }
  if (!isa_and_nonnull<graph::TransposeOp, graph::ReshapeOp,
                       graph::BroadcastOp>(op))
    return value;
  Value inner = withoutFactors(builder, op->getOperand(0), scale);
  if (inner == op->getOperand(0))
    return value;
  OperationState state(op->getLoc(), op->getName(), inner, op->getResultTypes(),
                       op->getAttrs());
  return builder.create(state)->getResult(0);
}

/// Returns true if a transpose swaps the last two dims and no others.
static bool swapsLast(ArrayRef<int64_t> order) {
  int64_t rank = order.size();
  return rank >= 2 && llvm::is_sorted(order.drop_back(2)) &&
         order[rank - 2] == rank - 1 && order[rank - 1] == rank - 2;
}

Value training::permuted(OpBuilder &builder, Value value,
                         ArrayRef<int64_t> order) {
  SmallVector<int64_t> result, moving;
  for (int64_t dim : order) {
    result.push_back(getShape(value)[dim]);
    if (result.back() != 1)
      moving.push_back(dim);
  }
  if (llvm::is_sorted(moving))
    return reshaped(builder, value, result);
  if (auto transpose = value.getDefiningOp<graph::TransposeOp>()) {
    SmallVector<int64_t> both;
    for (int64_t dim : order)
      both.push_back(transpose.getPermutation()[dim]);
    return permuted(builder, transpose.getInput(), both);
  }
  Value inner = value;
  while (auto reshape = inner.getDefiningOp<graph::ReshapeOp>())
    inner = reshape.getInput();
  if (inner.getDefiningOp<graph::TransposeOp>()) {
    ArrayRef<int64_t> from = getShape(inner), to = getShape(value);
    auto transpose = inner.getDefiningOp<graph::TransposeOp>();
    if (swapsLast(order) && swapsLast(transpose.getPermutation()) &&
        from.take_back(2) == to.take_back(2))
      return reshaped(builder, transpose.getInput(), result);
    SmallVector<int64_t> source, moved, shape;
    for (auto [dim, size] : llvm::enumerate(from))
      if (size != 1)
        source.push_back(dim);
      else
        moved.push_back(dim); // dims of size 1 come first
    SmallVector<int64_t> sourceOf(to.size(), -1);
    size_t next = 0;
    for (auto [dim, size] : llvm::enumerate(to)) {
      if (size == 1)
        continue;
      if (next == source.size() || from[source[next]] != size)
        break;
      sourceOf[dim] = source[next++];
    }
    if (next == source.size()) {
      for (int64_t dim : order) {
        shape.push_back(to[dim]);
        if (sourceOf[dim] >= 0)
          moved.push_back(sourceOf[dim]);
      }
      return reshaped(builder, permuted(builder, inner, moved), shape);
    }
  }
  return graph::TransposeOp::create(builder, value.getLoc(), value, order);
}

Value training::withoutRepeatedHeads(OpBuilder &builder, Value operand) {
  SmallVector<int64_t> whole(getShape(operand));
  Value repeated = operand;
  while (auto reshape = repeated.getDefiningOp<graph::ReshapeOp>())
    repeated = reshape.getInput();
  auto broadcast = repeated.getDefiningOp<graph::BroadcastOp>();
  if (!broadcast || !llvm::is_sorted(broadcast.getDims()))
    return operand;
  // The last dims that are not of size 1 are the keys and the width; right
  // before them is what repeats.
  ArrayRef<int64_t> dims = getShape(repeated);
  int64_t after = whole[2] * whole[3], last = dims.size();
  for (int64_t size = 1; last > 0 && size < after;)
    size *= dims[--last];
  int64_t repeats = 1;
  for (int64_t dim = last - 1; dim >= 0; --dim) {
    if (llvm::is_contained(broadcast.getDims(), dim)) {
      if (dims[dim] == 1)
        continue;
      break;
    }
    repeats *= dims[dim];
  }
  if (sizeOf(dims, llvm::to_vector(llvm::seq<int64_t>(
                       last, static_cast<int64_t>(dims.size())))) != after ||
      repeats == 1)
    return operand;
  // Where the heads are no multiple of what repeats, the number of elements is
  // another one, too.
  whole[1] /= repeats;
  if (graph::numElements(getShape(broadcast.getInput())) !=
      graph::numElements(whole))
    return operand;
  return reshaped(builder, broadcast.getInput(), whole);
}

Value training::repeatHeads(OpBuilder &builder, Value operand, int64_t groups) {
  SmallVector<int64_t> whole(getShape(operand));
  if (whole[1] == groups)
    return operand;
  SmallVector<int64_t> apart{whole[0], whole[1], groups / whole[1], whole[2],
                             whole[3]};
  whole[1] = groups;
  Value repeated = graph::BroadcastOp::create(
      builder, operand.getLoc(), operand, apart, ArrayRef<int64_t>{0, 1, 3, 4});
  return reshaped(builder, repeated, whole);
}
