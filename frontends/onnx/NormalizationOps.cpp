// Imports norms over dims of one sample. Batch normalization, which has
// statistics, is in TrainingOps.cpp.

#include "frontends/emit/Normalization.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// The operands of a norm over the dims of x from `axis` on: x, and scale and
/// bias over these dims.
struct Normalized {
  int64_t axis;
  Imported scale, bias; // bias: zeros if there is none
};

FailureOr<Normalized> getNormalized(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0);
  Shape shape = x.getShape();
  auto axis = n.axis(n.getInt("axis", -1), x.getRank());
  if (failed(axis))
    return failure();
  ArrayRef<int64_t> dims = ArrayRef<int64_t>(shape).drop_front(*axis);
  auto fits = [&](const Imported &y) {
    auto common = broadcastShapes(dims, y.getShape());
    return succeeded(common) && ArrayRef<int64_t>(*common) == dims;
  };
  if (!fits(n.operand(1)) || (n.has(2) && !fits(n.operand(2)))) {
    (void)n.fail("its scale or bias does not fit " + toString(dims));
    return failure();
  }
  auto spread = [&](const Imported &y) {
    return n.emit.broadcast(y, dims, !x.isConstant());
  };
  return Normalized{
      *axis, spread(n.operand(1)),
      spread(n.has(2) ? n.operand(2) : n.emit.scalar(x.getElementType(), 0))};
}

LogicalResult layerNormalization(NodeImporter &n) {
  auto operands = getNormalized(n);
  if (failed(operands))
    return failure();
  const Imported &x = n.operand(0);
  double epsilon = n.getFloat("epsilon", 1e-5);
  SmallVector<Imported> results =
      n.emit.emit({x, operands->scale, operands->bias},
                  [&](OpBuilder &b, ValueRange v) -> Operation * {
                    return graph::LayerNormOp::create(
                        b, n.emit.getLocation(), v[0], v[1], v[2], epsilon);
                  });
  n.result(0, results[0]);
  Shape kept = x.getShape();
  std::fill(kept.begin() + operands->axis, kept.end(), 1);
  for (size_t i : {1, 2})
    if (n.wants(i))
      n.result(i, n.emit.reshape(results[i], kept));
  return success();
}

/// x / sqrt(mean(x^2) + epsilon) * scale over the dims from `axis` on.
LogicalResult rmsNormalization(NodeImporter &n) {
  auto operands = getNormalized(n);
  if (failed(operands))
    return failure();
  if (n.wants(1))
    return n.fail("the deviation as a result; compute it in the model");
  double epsilon = n.getFloat("epsilon", 1e-5);
  SmallVector<Imported> results =
      n.emit.emit({n.operand(0), operands->scale},
                  [&](OpBuilder &b, ValueRange v) -> Operation * {
                    return graph::RmsNormOp::create(b, n.emit.getLocation(),
                                                    v[0], v[1], epsilon);
                  });
  n.result(0, results[0]);
  return success();
}

/// Normalizes each of `groups` groups of channels (dim 1) over its channels and
/// all dims after them, with scale and bias (operands 1 and 2) per channel or
/// per group.
LogicalResult normalizeGroups(NodeImporter &n, int64_t groups, bool perGroup) {
  if (failed(n.need(3)))
    return failure();
  auto result = frontends::normalizeGroups(n.emit, n.operand(0), groups,
                                           n.operand(1), n.operand(2), perGroup,
                                           n.getFloat("epsilon", 1e-5));
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

LogicalResult instanceNormalization(NodeImporter &n) {
  return normalizeGroups(
      n,
      n.has(0) && n.operand(0).getRank() > 1 ? n.operand(0).getShape()[1] : 0,
      false);
}

/// Before version 21 scale and bias are per group.
LogicalResult groupNormalization(NodeImporter &n) {
  return normalizeGroups(n, n.getInt("num_groups", 0), n.since < 21);
}

const OpRow rows[] = {
    {"", "LayerNormalization", 17, layerNormalization},
    // onnxruntime's optimizer writes these ops into files of any opset, in
    // ONNX's own domain.
    {"", "LayerNormalization", 1, layerNormalization},
    {"", "SimplifiedLayerNormalization", 1, rmsNormalization},
    {"com.microsoft", "SimplifiedLayerNormalization", 1, rmsNormalization},
    {"", "RMSNormalization", 23, rmsNormalization},
    {"", "InstanceNormalization", 6, instanceNormalization},
    {"", "GroupNormalization", 18, groupNormalization},
    {"", "GroupNormalization", 21, groupNormalization},
};

} // namespace

ArrayRef<OpRow> getNormalizationRows() { return rows; }

} // namespace polyrank::frontends::onnx
