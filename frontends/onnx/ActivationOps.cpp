// Imports activations that are several ops, and bounds on values.

#include "frontends/emit/Activations.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

Imported clipped(NodeImporter &n, const Imported &x, const Imported &bound,
                 bool isLower) {
  return clipped(n.emit, x, bound, isLower,
                 !n.isOf("aten.hardtanh") && !n.isOf("aten.relu6"));
}

namespace {

LogicalResult clip(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Imported x = n.operand(0);
  Type type = x.getElementType();
  auto bound = [&](StringRef name, size_t i) -> std::optional<Imported> {
    if (n.since < 11) {
      if (const Attribute *given = n.attribute(name))
        return n.emit.scalar(type, given->f);
      return std::nullopt;
    }
    return n.has(i) ? std::optional(n.operand(i)) : std::nullopt;
  };
  if (auto min = bound("min", 1))
    x = clipped(n, x, *min, /*isLower=*/true);
  if (auto max = bound("max", 2))
    x = clipped(n, x, *max, /*isLower=*/false);
  n.result(0, x);
  return success();
}

LogicalResult gelu(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  StringRef approximate = n.getString("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.fail("Gelu with approximate `" + approximate + "`");
  n.result(0, n.emit.unary<graph::GeluOp>(
                  n.operand(0), approximate == "tanh" ? graph::GeluForm::Tanh
                                                      : graph::GeluForm::Erf));
  return success();
}

LogicalResult softplus(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(0, softplusOf(n.emit, n.operand(0)));
  return success();
}

LogicalResult mish(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  n.result(0, n.emit.binary<graph::MulOp>(
                  x, n.emit.unary<graph::TanhOp>(softplusOf(n.emit, x))));
  return success();
}

LogicalResult softsign(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  n.result(0, n.emit.binary<graph::DivOp>(
                  x, n.emit.binaryOver<graph::AddOp>(
                         n.emit.unary<graph::AbsOp>(x),
                         n.emit.scalar(x.getElementType(), 1))));
  return success();
}

/// x where x > 0, else `below(x)`.
LogicalResult rectified(NodeImporter &n,
                        function_ref<Imported(const Imported &)> below) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  Imported positive = n.emit.binaryOver<graph::CompareOp>(
      x, n.emit.scalar(x.getElementType(), 0), graph::Comparison::GT);
  n.result(0, n.emit.select(positive, x, below(x)));
  return success();
}

LogicalResult leakyRelu(NodeImporter &n) {
  return rectified(n, [&](const Imported &x) {
    return n.emit.binaryOver<graph::MulOp>(
        x, n.emit.scalar(x.getElementType(), n.getFloat("alpha", 0.01)));
  });
}

/// The slope has the operand's shape after broadcasting.
LogicalResult pRelu(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto shape =
      broadcastShapes(n.operand(0).getShape(), n.operand(1).getShape());
  if (failed(shape) || *shape != n.operand(0).getShape())
    return n.fail("its slope " + toString(n.operand(1).getShape()) +
                  " does not fit " + toString(n.operand(0).getShape()));
  return rectified(n, [&](const Imported &x) {
    return n.emit.binaryOver<graph::MulOp>(x, n.operand(1));
  });
}

LogicalResult elu(NodeImporter &n) {
  return rectified(n, [&](const Imported &x) {
    return exponential(n.emit, x, n.getFloat("alpha", 1));
  });
}

LogicalResult celu(NodeImporter &n) {
  double alpha = n.getFloat("alpha", 1);
  return rectified(n, [&](const Imported &x) {
    return exponential(n.emit, x, alpha, alpha);
  });
}

LogicalResult selu(NodeImporter &n) {
  if (failed(rectified(n, [&](const Imported &x) {
        return exponential(n.emit, x,
                           n.getFloat("alpha", 1.67326319217681884765625));
      })))
    return failure();
  Imported scaled = n.getResults()[0];
  n.result(0, n.emit.binaryOver<graph::MulOp>(
                  scaled, n.emit.scalar(
                              scaled.getElementType(),
                              n.getFloat("gamma", 1.05070102214813232421875))));
  return success();
}

LogicalResult thresholdedRelu(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  Type type = x.getElementType();
  Imported above = n.emit.binaryOver<graph::CompareOp>(
      x, n.emit.scalar(type, n.getFloat("alpha", 1)), graph::Comparison::GT);
  n.result(0, n.emit.select(above, x,
                            n.emit.broadcast(n.emit.scalar(type, 0),
                                             x.getShape(), !x.isConstant())));
  return success();
}

LogicalResult hardSigmoid(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(0, hardSigmoidOf(n.emit, n.operand(0), n.getFloat("alpha", 0.2),
                            n.getFloat("beta", 0.5)));
  return success();
}

LogicalResult hardSwish(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  n.result(0, n.emit.binary<graph::MulOp>(
                  x, hardSigmoidOf(n.emit, x, 1.0 / 6, 0.5)));
  return success();
}

/// x * sigmoid(alpha * x).
LogicalResult swish(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  double alpha = n.getFloat("alpha", 1);
  Imported scaled = alpha == 1
                        ? x
                        : n.emit.binaryOver<graph::MulOp>(
                              x, n.emit.scalar(x.getElementType(), alpha));
  n.result(0, n.emit.binary<graph::MulOp>(
                  x, n.emit.unary<graph::SigmoidOp>(scaled)));
  return success();
}

const OpRow rows[] = {
    {"", "Gelu", 20, gelu},
    {"", "Softplus", 1, softplus},
    {"", "LeakyRelu", 6, leakyRelu},
    {"", "PRelu", 7, pRelu},
    {"", "Elu", 6, elu},
    {"", "Celu", 12, celu},
    {"", "Selu", 6, selu},
    {"", "ThresholdedRelu", 10, thresholdedRelu},
    {"", "Mish", 18, mish},
    {"", "Softsign", 1, softsign},
    {"", "HardSigmoid", 6, hardSigmoid},
    {"", "HardSwish", 14, hardSwish},
    {"", "Swish", 24, swish},
    {"", "Clip", 6, clip},
    {"", "Clip", 11, clip},
};

} // namespace

ArrayRef<OpRow> getActivationRows() { return rows; }

} // namespace polyrank::frontends::onnx
