// Host tensors.

#include "dialects/graph/Tensor.h"

#include <cmath>

#include "dialects/graph/ElementTypes.h"
#include "support/ElementValues.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace polyrank;
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

void polyrank::graph::forEachIndex(ArrayRef<int64_t> shape,
                                   function_ref<void(ArrayRef<int64_t>)> body) {
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
  // A tensor of booleans holds numbers of 64 bits, since a sum of booleans is
  // not a boolean.
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

double polyrank::graph::roundTo(FloatType type, double value) {
  return visitElements(*toElementType(type), [&]<typename T>(T) -> double {
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(value);
    APFloat rounded(value); // once, not first to a float
    bool loses = false;
    rounded.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &loses);
    return rounded.convertToDouble();
  });
}

double polyrank::graph::getTolerance(FloatType type, int64_t length) {
  auto unit = [](Type each) {
    return std::ldexp(1.0, -rowOf(*toElementType(each)).digits);
  };
  double additions =
      length > 1 ? 2 * std::sqrt(static_cast<double>(length)) : 0;
  return unit(type) + additions * unit(accumulatorOf(type));
}

Tensor Tensor::splat(RankedTensorType type, double value) {
  Tensor tensor(type);
  if (auto element = dyn_cast<FloatType>(type.getElementType()))
    value = roundTo(element, value); // as a constant of this type has it
  for (int64_t i = 0, n = tensor.size(); i < n; ++i)
    tensor.set(i, value);
  return tensor;
}

void Tensor::round() {
  if (!isFloat() || elementType.isF64())
    return;
  auto type = cast<FloatType>(elementType);
  for (double &value : floats)
    value = roundTo(type, value);
}

/// Calls `function` with a value of the C++ type that has the elements' bits;
/// returns false if there is none.
template <typename Function>
static bool withCppType(Type type, const Function &function) {
  std::optional<ElementType> element = toElementType(type);
  return element && visitElements(*element, [&]<typename T>(T) {
           constexpr bool isBoolean = std::is_same_v<T, Boolean>;
           if constexpr (isBoolean)
             function(bool());
           else if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4)
             function(T());
           return isBoolean || (std::is_arithmetic_v<T> && sizeof(T) >= 4);
         });
}

Tensor Tensor::fromAttribute(DenseElementsAttr attribute) {
  Tensor tensor(attribute.getElementType(), attribute.getType().getShape());
  auto read = [&](auto zero) {
    auto values = attribute.getValues<decltype(zero)>();
    if (tensor.isFloat())
      llvm::copy(values, tensor.floats.begin());
    else
      llvm::copy(values, tensor.integers.begin());
  };
  if (withCppType(tensor.elementType, read))
    return tensor;
  if (tensor.isFloat()) {
    for (auto [i, value] : llvm::enumerate(attribute.getValues<APFloat>())) {
      APFloat wide = value;
      bool loses = false;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      tensor.floats[i] = wide.convertToDouble();
    }
  } else {
    for (auto [i, value] : llvm::enumerate(attribute.getValues<APInt>()))
      tensor.integers[i] = value.getSExtValue();
  }
  return tensor;
}

DenseElementsAttr Tensor::toAttribute() const {
  DenseElementsAttr attribute;
  auto write = [&](auto zero) {
    using Element = decltype(zero);
    auto values = std::make_unique<Element[]>(size());
    for (int64_t i = 0, n = size(); i < n; ++i)
      values[i] = isFloat() ? static_cast<Element>(floats[i])
                            : static_cast<Element>(integers[i]);
    attribute = DenseElementsAttr::get(getType(),
                                       ArrayRef<Element>(values.get(), size()));
  };
  if (withCppType(elementType, write))
    return attribute;
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

/// Calls `copy`, row by row, with the offsets in a box of `shape` and in the
/// whole tensor, where the box is at `start`.
static void forEachRow(ArrayRef<int64_t> shape, ArrayRef<int64_t> start,
                       ArrayRef<int64_t> whole,
                       function_ref<void(int64_t, int64_t)> copy) {
  SmallVector<int64_t> strides = getStrides(whole), rows(shape);
  int64_t base = offset(start, strides), width = 1;
  // The elements of the last dim are adjacent.
  if (!rows.empty()) {
    width = rows.back();
    rows.back() = std::min<int64_t>(width, 1);
  }
  forEachIndex(rows, [&](ArrayRef<int64_t> index) {
    copy(base + offset(index, strides), width);
  });
}

Tensor Tensor::slice(ArrayRef<int64_t> start, ArrayRef<int64_t> size) const {
  Tensor result(elementType, size);
  int64_t to = 0;
  forEachRow(size, start, shape, [&](int64_t from, int64_t width) {
    result.copy(to, *this, from, width);
    to += width;
  });
  return result;
}

void Tensor::insert(const Tensor &part, ArrayRef<int64_t> start) {
  int64_t from = 0;
  forEachRow(part.shape, start, shape, [&](int64_t to, int64_t width) {
    copy(to, part, from, width);
    from += width;
  });
}
