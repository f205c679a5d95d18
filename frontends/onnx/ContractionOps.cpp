// Import of products, reductions and softmax.

#include <limits>

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using sharding::ReductionKind;

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
    return n.fail("MatMul of integers; multiply floats (x.float())");
  Shape a = lhs.getShape(), b = rhs.getShape();
  if (a.empty() || b.empty())
    return n.fail("MatMul of a scalar");
  bool vectorLhs = a.size() == 1, vectorRhs = b.size() == 1;
  if (vectorLhs)
    a.insert(a.begin(), 1);
  if (vectorRhs)
    b.push_back(1);
  if (a.back() != b[b.size() - 2])
    return n.fail("the contracted dims of " + toString(lhs.getShape()) +
                  " and " + toString(rhs.getShape()) + " differ: " +
                  Twine(a.back()) + " and " + Twine(b[b.size() - 2]));
  ArrayRef<int64_t> aBatch = ArrayRef<int64_t>(a).drop_back(2);
  ArrayRef<int64_t> bBatch = ArrayRef<int64_t>(b).drop_back(2);
  auto batch = broadcastShapes(aBatch, bBatch);
  if (failed(batch))
    return n.fail("the batch dims of " + toString(lhs.getShape()) + " and " +
                  toString(rhs.getShape()) + " do not fit");

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
    return n.fail("Gemm of integers; multiply floats (x.float())");
  if (a.getRank() != 2 || b.getRank() != 2)
    return n.fail("its operands " + toString(a.getShape()) + " and " +
                  toString(b.getShape()) + " are no matrices");
  int64_t contractA = n.getInt("transA", 0) ? 0 : 1;
  int64_t contractB = n.getInt("transB", 0) ? 1 : 0;
  if (int64_t left = a.getShape()[contractA], right = b.getShape()[contractB];
      left != right)
    return n.fail("the contracted dims of " + toString(a.getShape()) + " and " +
                  toString(b.getShape()) + " differ: " + Twine(left) + " and " +
                  Twine(right));
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

/// The product over `dims`, halves times halves: its gradient is right where
/// elements are 0, which that of a quotient would not be.
Imported productOver(NodeImporter &n, Imported x, ArrayRef<int64_t> dims) {
  for (int64_t dim : dims) {
    while (true) {
      int64_t size = x.getShape()[dim];
      if (size <= 1)
        break;
      int64_t half = size / 2;
      Imported product = n.emit.binary<graph::MulOp>(
          n.emit.slice(x, dim, 0, half), n.emit.slice(x, dim, half, 2 * half));
      x = size % 2 ? n.emit.concat({product, n.emit.slice(x, dim, 2 * half, size)},
                                   dim)
                   : product;
    }
  }
  Shape shape = x.getShape();
  if (llvm::any_of(dims, [&](int64_t dim) { return shape[dim] == 0; })) {
    // Of no elements: one.
    for (int64_t dim : dims)
      shape[dim] = 1;
    x = n.emit.broadcast(n.emit.scalar(x.getElementType(), 1), shape, false);
  }
  Shape left;
  for (auto [d, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(dims, static_cast<int64_t>(d)))
      left.push_back(size);
  return n.emit.reshape(x, left);
}

enum class Reduction {
  Sum, Mean, Max, Min, Product, L1, L2, SumSquare, LogSumExp
};

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
  // Of equal elements these two give the gradient to the first, others (amax) to
  // all.
  bool first = n.isOf("aten.max.dim") || n.isOf("aten.min.dim");
  Imported result;
  switch (kind) {
  case Reduction::Sum:
    result = n.emit.reduce(ReductionKind::Sum, x, dims);
    break;
  case Reduction::Mean:
    result = n.emit.mean(x, dims);
    break;
  case Reduction::Max:
    result = n.emit.reduce(ReductionKind::Max, x, dims, first);
    break;
  case Reduction::Min:
    result = n.emit.reduce(ReductionKind::Min, x, dims, first);
    break;
  case Reduction::Product:
    result = productOver(n, x, dims);
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
      result = rootOf(n, result);
    break;
  case Reduction::LogSumExp: {
    // An infinite maximum is not taken off: infinity less itself is NaN.
    Imported max = n.emit.reduce(ReductionKind::Max, x, dims);
    Type type = x.getElementType();
    if (isa<FloatType>(type))
      max = n.emit.select(
          n.emit.binaryOver<graph::CompareOp>(
              n.emit.unary<graph::AbsOp>(max),
              n.emit.scalar(type, std::numeric_limits<double>::infinity()),
              graph::Comparison::LT),
          max,
          n.emit.broadcast(n.emit.scalar(type, 0), max.getShape(),
                           !max.isConstant()));
    Imported shifted =
        n.emit.binaryOver<graph::SubOp>(x, n.emit.keepDims(max, shape, dims));
    Imported sum = n.emit.reduce(ReductionKind::Sum,
                                 n.emit.unary<graph::ExpOp>(shifted), dims);
    result = n.emit.binary<graph::AddOp>(n.emit.unary<graph::LogOp>(sum), max);
    break;
  }
  }
  if (n.getInt("keepdims", 1))
    result = n.emit.keepDims(result, shape, dims);
  n.result(0, result);
  return success();
}

//===-- softmax ----------------------------------------------------------===//

/// Whether the operator that the node was made for still has its Dropout.
bool hasDropout(const NodeImporter &n) {
  std::string_view call = find(n.node.metadata, "pkg.torch.onnx.fx_node");
  bool has = false;
  forEachNode(n.model.graph, [&](const Node &other) {
    has |= other.type == "Dropout" &&
           find(other.metadata, "pkg.torch.onnx.fx_node") == call;
  });
  return has;
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
  double rate = attentionDropout(n.node);
  if (!log && rate > 0 && !hasDropout(n) && result.value) {
    rate = n.options.dropout.value_or(rate);
    if (n.options.training && rate > 0)
      result = n.emit.dropout(result, rate);
  }
  n.result(0, n.emit.reshape(result, shape));
  return success();
}

const OpRow rows[] = {
    {"", "MatMul", 1, matMul},
    {"", "Gemm", 7, gemm},
    {"", "ReduceSum", 1, reduce<Reduction::Sum>},
    {"", "ReduceMean", 1, reduce<Reduction::Mean>},
    {"", "ReduceMax", 1, reduce<Reduction::Max>},
    {"", "ReduceMin", 1, reduce<Reduction::Min>},
    {"", "ReduceProd", 1, reduce<Reduction::Product>},
    {"", "ReduceL1", 1, reduce<Reduction::L1>},
    {"", "ReduceL2", 1, reduce<Reduction::L2>},
    {"", "ReduceSumSquare", 1, reduce<Reduction::SumSquare>},
    {"", "ReduceLogSumExp", 1, reduce<Reduction::LogSumExp>},
    {"", "Softmax", 1, softmax<false>},
    {"", "Softmax", 13, softmax<false>},
    {"", "LogSoftmax", 1, softmax<true>},
    {"", "LogSoftmax", 13, softmax<true>},
};

} // namespace

Imported logSoftmaxOf(NodeImporter &n, const Imported &x, int64_t dim) {
  Shape shape = x.getShape();
  Imported max =
      n.emit.keepDims(n.emit.reduce(ReductionKind::Max, x, dim), shape, dim);
  Imported shifted = n.emit.binaryOver<graph::SubOp>(x, max);
  Imported sum = n.emit.reduce(ReductionKind::Sum,
                               n.emit.unary<graph::ExpOp>(shifted), dim);
  return n.emit.binaryOver<graph::SubOp>(
      shifted, n.emit.keepDims(n.emit.unary<graph::LogOp>(sum), shape, dim));
}

/// Whether `value` is computed from constants alone.
static bool isKnown(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isa<graph::ConstantOp>(op) ||
                (isa<graph::BroadcastOp, graph::ReshapeOp, graph::ConvertOp>(op) &&
                 isKnown(op->getOperand(0))));
}

static bool isSquare(Value value) {
  if (auto product = value.getDefiningOp<graph::MulOp>())
    return product.getLhs() == product.getRhs();
  auto power = value.getDefiningOp<graph::PowOp>();
  return power && isKnown(power.getRhs());
}

bool isSumOfSquares(Value value) {
  if (Operation *op = value.getDefiningOp();
      isa_and_present<graph::ReshapeOp, graph::BroadcastOp, graph::TransposeOp>(
          op))
    return isSumOfSquares(op->getOperand(0));
  if (auto sum = value.getDefiningOp<graph::ReduceOp>())
    return sum.getKind() == ReductionKind::Sum && isSquare(sum.getInput());
  if (auto quotient = value.getDefiningOp<graph::DivOp>())
    return isKnown(quotient.getRhs()) && isSumOfSquares(quotient.getLhs());
  // Of a mean, and of two norms at once.
  auto product = value.getDefiningOp<graph::MulOp>();
  if (!product)
    return false;
  auto isFactor = [](Value factor) {
    return isKnown(factor) || isSumOfSquares(factor);
  };
  return isFactor(product.getLhs()) && isFactor(product.getRhs());
}

Imported rootOf(NodeImporter &n, const Imported &x) {
  auto constant = [&](double value) {
    return n.emit.broadcast(n.emit.scalar(x.getElementType(), value),
                            x.getShape(), !x.isConstant());
  };
  Imported isZero = n.emit.binary<graph::CompareOp>(x, constant(0),
                                                    graph::Comparison::EQ);
  Imported root = n.emit.unary<graph::SqrtOp>(
      n.emit.select(isZero, constant(1), x));
  return n.emit.select(isZero, constant(0), root);
}

ArrayRef<OpRow> getContractionRows() { return rows; }

} // namespace polyrank::frontends::onnx
