// Imports products, reductions and softmax.

#include "frontends/emit/Fourier.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Products.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using sharding::ReductionKind;

//===-- products ---------------------------------------------------------===//

LogicalResult matMul(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto product = matrixProduct(n.emit, n.operand(0), n.operand(1));
  if (failed(product))
    return failure();
  n.result(0, *product);
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
  Imported result = productOf(n.emit, a, b, {}, {}, contractA, contractB);
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

enum class Reduction {
  Sum,
  Mean,
  Max,
  Min,
  Product,
  L1,
  L2,
  SumSquare,
  LogSum,
  LogSumExp
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
  // For equal elements these two operators give the gradient to the first one,
  // others (amax) to all.
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
    result = productOver(n.emit, x, dims);
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
      result = rootOf(n.emit, result);
    break;
  case Reduction::LogSum:
    result =
        n.emit.unary<graph::LogOp>(n.emit.reduce(ReductionKind::Sum, x, dims));
    break;
  case Reduction::LogSumExp:
    result = logSumExpOf(n.emit, x, dims);
    break;
  }
  if (n.getInt("keepdims", 1))
    result = n.emit.keepDims(result, shape, dims);
  n.result(0, result);
  return success();
}

//===-- softmax ----------------------------------------------------------===//

/// Returns true if the operator from which the node was made still has its
/// Dropout.
bool hasDropout(const NodeImporter &n) {
  std::string_view call = find(n.node.metadata, "pkg.torch.onnx.fx_node");
  bool has = false;
  forEachNode(n.model.graph, [&](const Node &other) {
    has |= other.type == "Dropout" &&
           find(other.metadata, "pkg.torch.onnx.fx_node") == call;
  });
  return has;
}

/// Before version 13 the softmax is over all dims from `axis` on.
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
  Imported result = log ? logSoftmaxOf(n.emit, x, *axis)
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

/// From opset 20 on the axis is an operand.
LogicalResult dft(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  if (!isa<FloatType>(x.getElementType()) || x.getRank() < 2)
    return n.fail("a Fourier transform of " + toString(x.getShape()));
  int64_t given = n.since < 20 ? n.getInt("axis", 1) : -2;
  if (n.since >= 20 && n.has(2)) {
    auto operand = n.integer(2, "axis");
    if (failed(operand))
      return failure();
    given = *operand;
  }
  auto dim = n.axis(given, x.getRank());
  if (failed(dim))
    return failure();
  if (*dim == x.getRank() - 1)
    return n.fail("a Fourier transform along the dim of real and imaginary "
                  "parts");
  FourierTransform transform{*dim, x.getShape()[*dim],
                             n.getInt("inverse", 0) != 0,
                             n.getInt("onesided", 0) != 0};
  if (n.has(1)) {
    auto length = n.integer(1, "dft_length");
    if (failed(length))
      return failure();
    transform.length = *length;
  }
  auto result = fourierTransform(n.emit, x, transform);
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

const OpRow rows[] = {
    {"", "DFT", 17, dft},
    {"", "DFT", 20, dft},
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
    {"", "ReduceLogSum", 1, reduce<Reduction::LogSum>},
    {"", "ReduceLogSumExp", 1, reduce<Reduction::LogSumExp>},
    {"", "Softmax", 1, softmax<false>},
    {"", "Softmax", 13, softmax<false>},
    {"", "LogSoftmax", 1, softmax<true>},
    {"", "LogSoftmax", 13, softmax<true>},
};

} // namespace

ArrayRef<OpRow> getContractionRows() { return rows; }

} // namespace polyrank::frontends::onnx
