// Import of products, reductions and what is made of them: softmax, norms,
// attention.

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using shard::ReductionKind;

//===-- products ---------------------------------------------------------===//

/// A two-dim transpose is a choice of contracted dim: the matmul takes the
/// matrix as it is stored. `contracted` is adjusted.
Imported withoutTranspose(const Imported &x, int64_t &contracted) {
  auto transpose = x.value ? x.value.getDefiningOp<graph::TransposeOp>()
                           : graph::TransposeOp();
  if (!transpose || x.getRank() != 2)
    return x;
  contracted = 1 - contracted;
  return transpose.getInput();
}

Imported dot(NodeImporter &n, const Imported &lhs, const Imported &rhs,
             ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch,
             int64_t lhsContract, int64_t rhsContract) {
  return n.emit.binary<graph::MatmulOp>(lhs, rhs, lhsBatch, rhsBatch,
                                        ArrayRef<int64_t>(lhsContract),
                                        ArrayRef<int64_t>(rhsContract));
}

/// NumPy's matmul. A batch dim that one side lacks (or has as 1) is a free dim
/// of the other side, so nothing is broadcast.
LogicalResult matMul(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  Imported lhs = n.operand(0), rhs = n.operand(1);
  if (!isa<FloatType>(lhs.getElementType()))
    return n.fail("MatMul of integers");
  Shape a = lhs.getShape(), b = rhs.getShape();
  if (a.empty() || b.empty())
    return n.fail("MatMul of a scalar");
  bool vectorLhs = a.size() == 1, vectorRhs = b.size() == 1;
  if (vectorLhs)
    a.insert(a.begin(), 1);
  if (vectorRhs)
    b.push_back(1);
  if (a.back() != b[b.size() - 2])
    return n.fail("MatMul of " + toString(lhs.getShape()) + " and " +
                  toString(rhs.getShape()));
  ArrayRef<int64_t> aBatch = ArrayRef<int64_t>(a).drop_back(2);
  ArrayRef<int64_t> bBatch = ArrayRef<int64_t>(b).drop_back(2);
  auto batch = broadcastShapes(aBatch, bBatch);
  if (failed(batch))
    return n.fail("MatMul of " + toString(lhs.getShape()) + " and " +
                  toString(rhs.getShape()));

  // Of each side keep the batch dims that it has; those that both have are
  // batch dims of the product.
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
  lhs = n.emit.reshape(lhs, lhsShape);
  rhs = n.emit.reshape(rhs, rhsShape);
  if (lhsBatch.empty()) {
    lhs = withoutTranspose(lhs, lhsContract);
    rhs = withoutTranspose(rhs, rhsContract);
  }
  Imported product =
      dot(n, lhs, rhs, lhsBatch, rhsBatch, lhsContract, rhsContract);

  // The product's dims: shared batch, left batch, rows, right batch, columns.
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
  n.result(0, n.emit.transpose(product, order));
  return success();
}

/// alpha * A' B' + beta * C.
LogicalResult gemm(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  Imported a = n.operand(0), b = n.operand(1);
  if (!isa<FloatType>(a.getElementType()))
    return n.fail("Gemm of integers");
  if (a.getRank() != 2 || b.getRank() != 2)
    return n.fail("Gemm of " + toString(a.getShape()) + " and " +
                  toString(b.getShape()));
  int64_t contractA = n.getInt("transA", 0) ? 0 : 1;
  int64_t contractB = n.getInt("transB", 0) ? 1 : 0;
  if (a.getShape()[contractA] != b.getShape()[contractB])
    return n.fail("Gemm of " + toString(a.getShape()) + " and " +
                  toString(b.getShape()));
  a = withoutTranspose(a, contractA);
  b = withoutTranspose(b, contractB);
  Imported result = dot(n, a, b, {}, {}, contractA, contractB);
  auto scaled = [&](const Imported &x, double factor) {
    return factor == 1 ? x
                       : n.emit.binaryOver<graph::MulOp>(
                             x, n.emit.scalar(x.getElementType(), factor));
  };
  result = scaled(result, n.getFloat("alpha", 1));
  double beta = n.getFloat("beta", 1);
  if (n.has(2) && beta != 0) {
    auto shape = broadcastShapes(result.getShape(), n.operand(2).getShape());
    if (failed(shape) || *shape != result.getShape())
      return n.fail("Gemm adds " + toString(n.operand(2).getShape()) + " to " +
                    toString(result.getShape()));
    result =
        n.emit.binaryOver<graph::AddOp>(result, scaled(n.operand(2), beta));
  }
  n.result(0, result);
  return success();
}

//===-- reductions -------------------------------------------------------===//

enum class Reduction { Sum, Mean, Max, Min, L1, L2, SumSquare, LogSumExp };

Imported keepDims(NodeImporter &n, const Imported &reduced,
                  ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  Shape kept(shape);
  for (int64_t dim : dims)
    kept[dim] = 1;
  return n.emit.reshape(reduced, kept);
}

Imported meanOver(NodeImporter &n, const Imported &x, ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= x.getShape()[dim];
  Imported sum = n.emit.reduce(ReductionKind::Sum, x, dims);
  return n.emit.binaryOver<graph::DivOp>(
      sum, n.emit.scalar(x.getElementType(), static_cast<double>(count)));
}

template <Reduction kind>
LogicalResult reduce(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Imported x = n.operand(0);
  Shape shape = x.getShape();
  auto given = n.integersFrom("axes", 1);
  if (failed(given))
    return failure();
  SmallVector<int64_t> dims;
  if (*given && !(*given)->empty()) {
    auto axes = n.axes(**given, shape.size());
    if (failed(axes))
      return failure();
    dims = *axes;
  } else if (n.getInt("noop_with_empty_axes", 0) == 0) {
    llvm::append_range(dims, llvm::seq<int64_t>(shape.size()));
  }
  Imported result;
  switch (kind) {
  case Reduction::Sum:
    result = n.emit.reduce(ReductionKind::Sum, x, dims);
    break;
  case Reduction::Mean:
    result = meanOver(n, x, dims);
    break;
  case Reduction::Max:
    result = n.emit.reduce(ReductionKind::Max, x, dims);
    break;
  case Reduction::Min:
    result = n.emit.reduce(ReductionKind::Min, x, dims);
    break;
  case Reduction::L1:
    result =
        n.emit.reduce(ReductionKind::Sum, n.emit.unary<graph::AbsOp>(x), dims);
    break;
  case Reduction::L2:
  case Reduction::SumSquare:
    result = n.emit.reduce(ReductionKind::Sum,
                           n.emit.binary<graph::MulOp>(x, x), dims);
    if (kind == Reduction::L2)
      result = n.emit.unary<graph::SqrtOp>(result);
    break;
  case Reduction::LogSumExp: {
    Imported max = n.emit.reduce(ReductionKind::Max, x, dims);
    Imported shifted =
        n.emit.binaryOver<graph::SubOp>(x, keepDims(n, max, shape, dims));
    Imported sum = n.emit.reduce(ReductionKind::Sum,
                                 n.emit.unary<graph::ExpOp>(shifted), dims);
    result = n.emit.binary<graph::AddOp>(n.emit.unary<graph::LogOp>(sum), max);
    break;
  }
  }
  if (n.getInt("keepdims", 1))
    result = keepDims(n, result, shape, dims);
  n.result(0, result);
  return success();
}

//===-- softmax ----------------------------------------------------------===//

Imported logSoftmaxOf(NodeImporter &n, const Imported &x, int64_t dim) {
  Shape shape = x.getShape();
  Imported max =
      keepDims(n, n.emit.reduce(ReductionKind::Max, x, dim), shape, dim);
  Imported shifted = n.emit.binaryOver<graph::SubOp>(x, max);
  Imported sum = n.emit.reduce(ReductionKind::Sum,
                               n.emit.unary<graph::ExpOp>(shifted), dim);
  return n.emit.binaryOver<graph::SubOp>(
      shifted, keepDims(n, n.emit.unary<graph::LogOp>(sum), shape, dim));
}

/// Before version 13 over all dims from `axis` on.
template <bool log>
LogicalResult softmax(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Imported x = n.operand(0);
  Shape shape = x.getShape();
  auto axis = n.axis(n.getInt("axis", n.since < 13 ? 1 : -1), x.getRank());
  if (failed(axis))
    return failure();
  if (n.since < 13) {
    Shape flat(ArrayRef<int64_t>(shape).take_front(*axis));
    flat.push_back(
        graph::numElements(ArrayRef<int64_t>(shape).drop_front(*axis)));
    x = n.emit.reshape(x, flat);
  }
  Imported result = log ? logSoftmaxOf(n, x, *axis)
                        : n.emit.unary<graph::SoftmaxOp>(x, *axis);
  n.result(0, n.emit.reshape(result, shape));
  return success();
}

//===-- norms ------------------------------------------------------------===//

LogicalResult layerNormalization(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0);
  Shape shape = x.getShape();
  auto axis = n.axis(n.getInt("axis", -1), x.getRank());
  if (failed(axis))
    return failure();
  ArrayRef<int64_t> normalized = ArrayRef<int64_t>(shape).drop_front(*axis);
  auto fits = [&](const Imported &y) {
    auto common = broadcastShapes(normalized, y.getShape());
    return succeeded(common) && ArrayRef<int64_t>(*common) == normalized;
  };
  if (!fits(n.operand(1)) || (n.has(2) && !fits(n.operand(2))))
    return n.fail("its scale or bias does not fit " + toString(normalized));
  bool known = x.isConstant();
  Imported scale = n.emit.broadcast(n.operand(1), normalized, !known);
  Imported bias = n.emit.broadcast(
      n.has(2) ? n.operand(2) : n.emit.scalar(x.getElementType(), 0),
      normalized, !known);
  double epsilon = n.getFloat("epsilon", 1e-5);
  SmallVector<Imported> results = n.emit.emit(
      {x, scale, bias}, [&](OpBuilder &b, ValueRange v) -> Operation * {
        return graph::LayerNormOp::create(b, n.emit.getLocation(), v[0], v[1],
                                          v[2], epsilon);
      });
  n.result(0, results[0]);
  Shape kept(shape);
  std::fill(kept.begin() + *axis, kept.end(), 1);
  for (size_t i : {1, 2})
    if (n.wants(i))
      n.result(i, n.emit.reshape(results[i], kept));
  return success();
}

/// x / sqrt(mean(x^2) + epsilon) * scale over the dims from `axis` on.
LogicalResult rmsNormalization(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0);
  Shape shape = x.getShape();
  auto axis = n.axis(n.getInt("axis", -1), x.getRank());
  if (failed(axis))
    return failure();
  SmallVector<int64_t> dims(
      llvm::to_vector(llvm::seq<int64_t>(*axis, x.getRank())));
  Imported square = meanOver(n, n.emit.binary<graph::MulOp>(x, x), dims);
  Imported scale = n.emit.unary<graph::RsqrtOp>(n.emit.binaryOver<graph::AddOp>(
      square, n.emit.scalar(x.getElementType(), n.getFloat("epsilon", 1e-5))));
  Imported result =
      n.emit.binaryOver<graph::MulOp>(x, keepDims(n, scale, shape, dims));
  n.result(0, n.emit.binaryOver<graph::MulOp>(result, n.operand(1)));
  return success();
}

//===-- attention --------------------------------------------------------===//

/// query [batch, heads, queries, width], key and value with as many heads or a
/// divisor of them, a mask that is true where a key is visible.
LogicalResult attention(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  Imported query = n.operand(0), key = n.operand(1), value = n.operand(2);
  if (query.getRank() != 4 || key.getRank() != 4 || value.getRank() != 4)
    return n.fail("Attention of operands that have not 4 dims");
  if (n.has(4) || n.has(5) || n.has(6) || n.wants(1) || n.wants(2) ||
      n.wants(3) || n.getFloat("softcap", 0) != 0)
    return n.fail("Attention with a cache, a soft cap or the scores as result");
  Shape q = query.getShape(), k = key.getShape(), v = value.getShape();
  if (k[1] == 0 || q[1] % k[1] != 0 || v[1] != k[1] || q[0] != k[0] ||
      v[0] != k[0] || q[3] != k[3] || v[2] != k[2])
    return n.fail("Attention of " + toString(q) + ", " + toString(k) + " and " +
                  toString(v));
  // Each head of key and value serves a group of query heads.
  auto repeatHeads = [&](const Imported &x) {
    Shape shape = x.getShape();
    if (shape[1] == q[1])
      return x;
    Imported apart =
        n.emit.reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]});
    Imported repeated = n.emit.broadcast(
        apart, {shape[0], shape[1], q[1] / shape[1], shape[2], shape[3]},
        false);
    return n.emit.reshape(repeated, {shape[0], q[1], shape[2], shape[3]});
  };
  SmallVector<Imported> operands = {query, repeatHeads(key),
                                    repeatHeads(value)};
  if (n.has(3)) {
    Imported mask = n.operand(3);
    if (!mask.getElementType().isInteger(1))
      return n.fail("Attention with a mask that is added to the scores");
    Shape whole = {q[0], q[1], q[2], k[2]};
    auto common = broadcastShapes(mask.getShape(), whole);
    if (failed(common) || *common != whole)
      return n.fail("its mask of " + toString(mask.getShape()) +
                    " does not fit " + toString(whole));
    // A mask that all batches and heads share has only the last two dims.
    Shape shape = mask.getShape();
    bool shared = true;
    if (mask.isConstant()) {
      auto varying = varyingDims(*mask.constant);
      shared = llvm::all_of(
          varying, [&](int64_t dim) { return dim >= mask.getRank() - 2; });
      for (int64_t dim = 0; shared && dim < mask.getRank() - 2; ++dim)
        mask = n.emit.slice(mask, dim, 0, 1);
    } else {
      shared = graph::numElements(ArrayRef<int64_t>(shape).drop_back(
                   std::min<size_t>(2, shape.size()))) == 1;
    }
    Shape kept = mask.getShape();
    if (shared && kept.size() > 2)
      mask = n.emit.reshape(mask, ArrayRef<int64_t>(kept).take_back(2));
    operands.push_back(n.emit.broadcast(
        mask, shared ? ArrayRef<int64_t>(whole).take_back(2) : whole, false));
  }
  double scale = n.getFloat("scale", 1 / std::sqrt(static_cast<double>(q[3])));
  bool causal = n.getInt("is_causal", 0) != 0;
  n.result(0,
           n.emit.emit(
               operands, [&](OpBuilder &b, ValueRange values) -> Operation * {
                 return graph::AttentionOp::create(
                     b, n.emit.getLocation(), values[0], values[1], values[2],
                     values.size() > 3 ? values[3] : Value(), scale, causal);
               })[0]);
  return success();
}

const OpRow rows[] = {
    {"", "MatMul", 1, matMul},
    {"", "Gemm", 7, gemm},
    {"", "ReduceSum", 1, reduce<Reduction::Sum>},
    {"", "ReduceMean", 1, reduce<Reduction::Mean>},
    {"", "ReduceMax", 1, reduce<Reduction::Max>},
    {"", "ReduceMin", 1, reduce<Reduction::Min>},
    {"", "ReduceL1", 1, reduce<Reduction::L1>},
    {"", "ReduceL2", 1, reduce<Reduction::L2>},
    {"", "ReduceSumSquare", 1, reduce<Reduction::SumSquare>},
    {"", "ReduceLogSumExp", 1, reduce<Reduction::LogSumExp>},
    {"", "Softmax", 1, softmax<false>},
    {"", "Softmax", 13, softmax<false>},
    {"", "LogSoftmax", 1, softmax<true>},
    {"", "LogSoftmax", 13, softmax<true>},
    {"", "LayerNormalization", 17, layerNormalization},
    {"", "RMSNormalization", 23, rmsNormalization},
    {"", "Attention", 23, attention},
};

} // namespace

ArrayRef<OpRow> getContractionRows() { return rows; }

} // namespace polyrank::frontends::onnx
