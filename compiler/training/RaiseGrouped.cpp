// Raises grouped_matmul: rows multiplied with the matrix of their group. The
// export has a batched product of which each entry picks a matrix by index.

#include "compiler/training/RaiseComposites.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getShape;

/// Returns the gather matrices[indices], with one matrix per index; null for
/// other values.
static graph::GatherOp getPickedMatrices(Value value) {
  auto gather = value.getDefiningOp<graph::GatherOp>();
  if (!gather || gather.getAxis() != 0 || gather.getBatchDims() != 0 ||
      gather.getPaddingIndex() || getShape(gather.getOperand()).size() != 3 ||
      getShape(gather.getIndices()).size() != 1)
    return {};
  return gather;
}

bool training::raiseGrouped(graph::MatmulOp matmul) {
  for (bool left : {true, false}) {
    auto gather = getPickedMatrices(left ? matmul.getLhs() : matmul.getRhs());
    ArrayRef<int64_t> batch =
        left ? matmul.getLhsBatch() : matmul.getRhsBatch();
    ArrayRef<int64_t> contract =
        left ? matmul.getLhsContract() : matmul.getRhsContract();
    if (!gather || batch != ArrayRef<int64_t>{0} || contract.size() != 1)
      continue;
    // The other side has one row per index: all its other dims are 1.
    Value other = left ? matmul.getRhs() : matmul.getLhs();
    int64_t row = (left ? matmul.getRhsBatch() : matmul.getLhsBatch())[0];
    int64_t inner =
        (left ? matmul.getRhsContract() : matmul.getLhsContract())[0];
    ArrayRef<int64_t> shape = getShape(other);
    if (graph::numElements(shape) != shape[row] * shape[inner])
      continue;
    graph::ProvenanceCopier copier(matmul);
    OpBuilder builder(matmul, &copier);
    graph::Parts parts(builder, matmul.getLoc());
    auto reshape = [&](Value x, ArrayRef<int64_t> to) -> Value {
      return graph::ReshapeOp::create(builder, matmul.getLoc(), x, to);
    };
    auto [first, second] = std::minmax(row, inner);
    Value rows = reshape(other, {shape[first], shape[second]});
    if (row > inner)
      rows = parts.transpose(rows, {1, 0});
    Value matrices = gather.getOperand();
    if (contract[0] == 2)
      matrices = parts.transpose(matrices, {0, 2, 1});
    Value groups = gather.getIndices();
    Type number = builder.getI64Type();
    if (cast<RankedTensorType>(groups.getType()).getElementType() != number)
      groups = parts.convert(groups, number);
    Value ids = parts.iota({getShape(matrices)[0]}, number, 0);
    Value result = graph::GroupedMatmulOp::create(
        builder, matmul.getLoc(), rows, matrices, groups, ids,
        getElementTypeOrSelf(matmul.getResult()));
    matmul.getResult().replaceAllUsesWith(
        reshape(result, getShape(matmul.getResult())));
    return true;
  }
  return false;
}
