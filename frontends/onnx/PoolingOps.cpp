// Imports pooling: one unfold per spatial dim, and a reduction of each window.

#include "frontends/onnx/WindowAttributes.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using sharding::ReductionKind;

/// What pooling ops share: a float operand with spatial dims, and windows.
FailureOr<SmallVector<Window>> poolingWindows(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  if (x.getRank() < 3 || !isa<FloatType>(x.getElementType()))
    return n.fail("pooling of " + toString(x.getShape()) +
                  (isa<FloatType>(x.getElementType()) ? "" : " integers"));
  if (!n.attribute("kernel_shape"))
    return n.fail("pooling without a kernel_shape");
  auto sizes = perDim(n, "kernel_shape", x.getRank() - 2, 1);
  if (failed(sizes))
    return failure();
  return findWindows(n, x.getShape(), *sizes);
}

LogicalResult maxPool(NodeImporter &n) {
  if (n.wants(1))
    return n.fail(
        "MaxPool that also returns indices; leave return_indices out");
  auto windows = poolingWindows(n);
  if (failed(windows))
    return failure();
  n.result(0, frontends::maxPool(n.emit, n.operand(0), *windows));
  return success();
}

LogicalResult averagePool(NodeImporter &n) {
  auto windows = poolingWindows(n);
  if (failed(windows))
    return failure();
  n.result(0, frontends::averagePool(n.emit, n.operand(0), *windows,
                                     n.getInt("count_include_pad", 0) != 0));
  return success();
}

/// Pools over all spatial dims, which are kept with size 1.
template <ReductionKind kind>
LogicalResult globalPool(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  if (x.getRank() < 3 || !isa<FloatType>(x.getElementType()))
    return n.fail("global pooling of " + toString(x.getShape()));
  Shape shape = x.getShape(), kept = {shape[0], shape[1]};
  int64_t count = 1;
  for (int64_t size : ArrayRef<int64_t>(shape).drop_front(2))
    count *= size;
  kept.append(x.getRank() - 2, 1);
  Imported pooled = n.emit.reduce(
      kind, x, llvm::to_vector(llvm::seq<int64_t>(2, x.getRank())),
      /*first=*/kind == ReductionKind::Max);
  if (kind == ReductionKind::Sum)
    pooled = n.emit.binaryOver<graph::DivOp>(
        pooled, n.emit.scalar(x.getElementType(), count));
  n.result(0, n.emit.reshape(pooled, kept));
  return success();
}

const OpRow rows[] = {
    {"", "MaxPool", 1, maxPool},
    {"", "AveragePool", 7, averagePool},
    {"", "GlobalAveragePool", 1, globalPool<ReductionKind::Sum>},
    {"", "GlobalMaxPool", 1, globalPool<ReductionKind::Max>},
};

} // namespace

ArrayRef<OpRow> getPoolingRows() { return rows; }

} // namespace polyrank::frontends::onnx
