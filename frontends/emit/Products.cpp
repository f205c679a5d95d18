// Matrix products.

#include "frontends/emit/Products.h"

using namespace mlir;

namespace polyrank::frontends {

Imported withoutTranspose(const Imported &x, int64_t &contracted) {
  auto transpose = x.value ? x.value.getDefiningOp<graph::TransposeOp>()
                           : graph::TransposeOp();
  if (!transpose || x.getRank() != 2)
    return x;
  contracted = 1 - contracted;
  return transpose.getInput();
}

Imported productOf(Emitter &emit, const Imported &lhs, const Imported &rhs,
                   ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch,
                   int64_t lhsContract, int64_t rhsContract) {
  return emit.binary<graph::MatmulOp>(lhs, rhs, lhsBatch, rhsBatch,
                                      ArrayRef<int64_t>(lhsContract),
                                      ArrayRef<int64_t>(rhsContract));
}

FailureOr<Imported> matrixProduct(Emitter &emit, Imported lhs, Imported rhs) {
  if (!isa<FloatType>(lhs.getElementType()))
    return emit.fail("a product of integers; multiply floats (x.float())");
  Shape a = lhs.getShape(), b = rhs.getShape();
  if (a.empty() || b.empty())
    return emit.fail("a matrix product of a scalar");
  bool vectorLhs = a.size() == 1, vectorRhs = b.size() == 1;
  if (vectorLhs)
    a.insert(a.begin(), 1);
  if (vectorRhs)
    b.push_back(1);
  if (a.back() != b[b.size() - 2])
    return emit.fail("the contracted dims of " + toString(lhs.getShape()) +
                     " and " + toString(rhs.getShape()) + " differ: " +
                     Twine(a.back()) + " and " + Twine(b[b.size() - 2]));
  ArrayRef<int64_t> aBatch = ArrayRef<int64_t>(a).drop_back(2);
  ArrayRef<int64_t> bBatch = ArrayRef<int64_t>(b).drop_back(2);
  auto batch = broadcastShapes(aBatch, bBatch);
  if (failed(batch))
    return emit.fail("the batch dims of " + toString(lhs.getShape()) + " and " +
                     toString(rhs.getShape()) + " do not fit");

  // Each side keeps the batch dims that it has; those that both have are batch
  // dims of the product.
  Shape lhsShape, rhsShape;
  SmallVector<int64_t> lhsBatch, rhsBatch;
  SmallVector<int64_t> shared, onlyLhs, onlyRhs; // positions in `batch`
  for (size_t i = 0; i < batch->size(); ++i) {
    auto dimOf = [&](ArrayRef<int64_t> dims) {
      size_t lead = batch->size() - dims.size();
      return i < lead ? int64_t(1) : dims[i - lead];
    };
    int64_t x = dimOf(aBatch), y = dimOf(bBatch);
    bool inLhs = x != 1 || (y == 1 && i + aBatch.size() >= batch->size());
    bool inRhs = y != 1;
    if (inLhs && inRhs) {
      shared.push_back(i);
      lhsBatch.push_back(lhsShape.size());
      rhsBatch.push_back(rhsShape.size());
    } else if (!inLhs) {
      onlyRhs.push_back(i);
      inRhs = true;
    } else {
      onlyLhs.push_back(i);
    }
    if (inLhs)
      lhsShape.push_back(x);
    if (inRhs)
      rhsShape.push_back(y);
  }
  int64_t rows = a[a.size() - 2], columns = b.back(), inner = a.back();
  if (!vectorLhs)
    lhsShape.push_back(rows);
  lhsShape.push_back(inner);
  rhsShape.push_back(inner);
  if (!vectorRhs)
    rhsShape.push_back(columns);
  int64_t lhsContract = static_cast<int64_t>(lhsShape.size()) - 1;
  int64_t rhsContract =
      static_cast<int64_t>(rhsShape.size()) - (vectorRhs ? 1 : 2);
  lhs = emit.reshape(lhs, lhsShape);
  rhs = emit.reshape(rhs, rhsShape);
  if (lhsBatch.empty()) {
    lhs = withoutTranspose(lhs, lhsContract);
    rhs = withoutTranspose(rhs, rhsContract);
  }
  Imported product =
      productOf(emit, lhs, rhs, lhsBatch, rhsBatch, lhsContract, rhsContract);

  // The dims of the product: shared batch, left batch, rows, right batch,
  // columns.
  SmallVector<int64_t> order(batch->size(), 0);
  int64_t at = 0, rowsAt = -1, columnsAt = -1;
  for (int64_t i : shared)
    order[i] = at++;
  for (int64_t i : onlyLhs)
    order[i] = at++;
  if (!vectorLhs)
    rowsAt = at++;
  for (int64_t i : onlyRhs)
    order[i] = at++;
  if (!vectorRhs)
    columnsAt = at++;
  for (int64_t each : {rowsAt, columnsAt})
    if (each >= 0)
      order.push_back(each);
  return emit.transpose(product, order);
}

Imported groupedProduct(Emitter &emit, const Imported &rows,
                        const Imported &matrices, const Imported &ends) {
  int64_t count = rows.getShape()[0], groups = matrices.getShape()[0];
  Type number = emit.getBuilder().getI64Type();
  // The group of row r is the number of entries of `ends` that are at most r.
  Shape shape = {groups, count};
  Imported end =
      emit.broadcast(emit.reshape(emit.convert(ends, number), {groups, 1}),
                     shape, !ends.isConstant());
  Imported isBehind =
      emit.convert(emit.binary<graph::CompareOp>(emit.iota(shape, 1, number),
                                                 end, graph::Comparison::GE),
                   number);
  Imported group = emit.reduce(sharding::ReductionKind::Sum, isBehind, {0});
  return emit.emit({rows, matrices, group, emit.iota({groups}, 0, number)},
                   [](OpBuilder &b, ValueRange v) -> Operation * {
                     return graph::GroupedMatmulOp::create(
                         b, v[0].getLoc(), v[0], v[1], v[2], v[3]);
                   })[0];
}

} // namespace polyrank::frontends
