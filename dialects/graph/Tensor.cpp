// Host tensors.

#include "dialects/graph/Tensor.h"

#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace polyrank::graph;

int64_t polyrank::graph::numElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

SmallVector<int64_t> polyrank::graph::getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

void polyrank::graph::forEachIndex(
    ArrayRef<int64_t> shape, function_ref<void(ArrayRef<int64_t>)> body) {
  if (numElements(shape) == 0)
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    body(index);
    int64_t dim = static_cast<int64_t>(shape.size()) - 1;
    while (dim >= 0 && ++index[dim] == shape[dim])
      index[dim--] = 0;
    if (dim < 0)
      return;
  }
}

Tensor::Tensor(Type elementType, ArrayRef<int64_t> shape)
    : elementType(elementType), shape(shape) {
  if (isFloat())
    floats.assign(numElements(shape), 0);
  else
    integers.assign(numElements(shape), 0);
}

int64_t polyrank::graph::toInteger(Type type, double value) {
  if (value != value)
    return 0;
  unsigned width = type.getIntOrFloatBitWidth();
  // As large as a tensor of booleans holds: sums of them are not booleans.
  bool isBool = width == 1;
  if (isBool && std::isinf(value))
    return value > 0;
  if (isBool)
    width = 64;
  if (value >= std::ldexp(1.0, width - 1))
    return llvm::maxIntN(width);
  if (value <= -std::ldexp(1.0, width - 1))
    return llvm::minIntN(width);
  return static_cast<int64_t>(value);
}

Tensor Tensor::splat(RankedTensorType type, double value) {
  Tensor tensor(type);
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    // As a constant of this type has it.
    APFloat rounded(value);
    bool loses = false;
    rounded.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &loses);
    value = rounded.convertToDouble();
  }
  for (int64_t i = 0, n = tensor.size(); i < n; ++i)
    tensor.set(i, value);
  return tensor;
}

Tensor Tensor::fromAttribute(DenseElementsAttr attribute) {
  Tensor tensor(attribute.getElementType(), attribute.getType().getShape());
  if (tensor.isFloat()) {
    for (auto [i, value] : llvm::enumerate(attribute.getValues<APFloat>())) {
      APFloat wide = value;
      bool loses = false;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      tensor.floats[i] = wide.convertToDouble();
    }
  } else {
    bool isBool = attribute.getElementType().isInteger(1);
    for (auto [i, value] : llvm::enumerate(attribute.getValues<APInt>()))
      tensor.integers[i] = isBool ? value.getZExtValue() : value.getSExtValue();
  }
  return tensor;
}

DenseElementsAttr Tensor::toAttribute() const {
  if (isFloat()) {
    const auto &semantics = cast<FloatType>(elementType).getFloatSemantics();
    SmallVector<APFloat> values;
    for (double value : floats) {
      APFloat narrow(value);
      bool loses = false;
      narrow.convert(semantics, APFloat::rmNearestTiesToEven, &loses);
      values.push_back(narrow);
    }
    return DenseElementsAttr::get(getType(), values);
  }
  unsigned width = elementType.getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t value : integers)
    values.push_back(APInt(64, value).trunc(width));
  return DenseElementsAttr::get(getType(), values);
}

Tensor Tensor::reshaped(ArrayRef<int64_t> newShape) const {
  assert(numElements(newShape) == size());
  Tensor result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  return result;
}

/// Offset of a multi-index.
static int64_t offset(ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
  int64_t result = 0;
  for (auto [i, stride] : llvm::zip_equal(index, strides))
    result += i * stride;
  return result;
}

Tensor Tensor::slice(ArrayRef<int64_t> start, ArrayRef<int64_t> size) const {
  Tensor result(elementType, size);
  SmallVector<int64_t> strides = getStrides(shape);
  int64_t base = offset(start, strides), to = 0;
  forEachIndex(size, [&](ArrayRef<int64_t> index) {
    result.copy(to++, *this, base + offset(index, strides));
  });
  return result;
}

void Tensor::insert(const Tensor &part, ArrayRef<int64_t> start) {
  SmallVector<int64_t> strides = getStrides(shape);
  int64_t base = offset(start, strides), from = 0;
  forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
    copy(base + offset(index, strides), part, from++);
  });
}
