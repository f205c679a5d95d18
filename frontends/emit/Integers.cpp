// Integers of types that are computed in wider ones.

#include "frontends/emit/Integers.h"

using namespace mlir;

namespace polyrank::frontends {

Imported wrapAround(Emitter &emit, const Imported &x, IntegerType type) {
  Type elementType = x.getElementType();
  auto scalar = [&](int64_t value) {
    graph::Tensor tensor(elementType, {});
    tensor.integers[0] = value;
    return Imported(std::move(tensor));
  };
  unsigned bits = type.getWidth();
  if (bits == 64)
    return x;
  auto lower = [&](const Imported &y) {
    return emit.binaryOver<graph::BitAndOp>(y,
                                            scalar((int64_t(1) << bits) - 1));
  };
  if (type.isUnsigned())
    return lower(x);
  Imported half = scalar(int64_t(1) << (bits - 1));
  return emit.binaryOver<graph::SubOp>(
      lower(emit.binaryOver<graph::AddOp>(x, half)), half);
}

} // namespace polyrank::frontends
