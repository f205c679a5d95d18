// Random numbers of distributions other than the uniform one.

#include "frontends/emit/Random.h"

#include <cmath>

using namespace mlir;

namespace polyrank::frontends {

Imported standardNormal(Emitter &emit, ArrayRef<int64_t> shape) {
  Imported radius = emit.uniform(shape), angle = emit.uniform(shape);
  auto scalar = [&](double value) {
    return emit.scalar(radius.getElementType(), value);
  };
  auto times = [&](const Imported &x, double factor) {
    return emit.binaryOver<graph::MulOp>(x, scalar(factor));
  };
  // 1 - u is in (0, 1], so its logarithm is finite.
  Imported rest = emit.binaryOver<graph::AddOp>(times(radius, -1), scalar(1));
  Imported length =
      emit.unary<graph::SqrtOp>(times(emit.unary<graph::LogOp>(rest), -2));
  return emit.binary<graph::MulOp>(
      length, emit.unary<graph::CosOp>(times(angle, 2 * M_PI)));
}

} // namespace polyrank::frontends
