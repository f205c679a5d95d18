// Tensors that are known at import, and queries on shapes.

#include "frontends/emit/Known.h"

#include <cfloat>
#include <cmath>

#include "dialects/graph/Boundary.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends {

graph::Tensor repeat(const graph::Tensor &tensor, ArrayRef<int64_t> shape) {
  graph::Tensor result(tensor.elementType, shape);
  if (result.size() == 0)
    return result;
  SmallVector<int64_t> strides = graph::getStrides(tensor.shape);
  int64_t to = 0;
  auto fill = [&](auto &self, size_t dim, int64_t from) -> void {
    if (dim == shape.size())
      return result.copy(to++, tensor, from);
    bool isOne = tensor.shape[dim] == 1;
    if (dim + 1 < shape.size()) {
      for (int64_t i = 0; i < shape[dim]; ++i)
        self(self, dim + 1, isOne ? from : from + i * strides[dim]);
      return;
    }
    auto row = [&](const auto &source, auto &into) {
      if (isOne)
        std::fill_n(into.begin() + to, shape[dim], source[from]);
      else
        std::copy_n(source.begin() + from, shape[dim], into.begin() + to);
    };
    if (tensor.isFloat())
      row(tensor.floats, result.floats);
    else
      row(tensor.integers, result.integers);
    to += shape[dim];
  };
  fill(fill, 0, 0);
  return result;
}

Known::Known(graph::Tensor tensor) : data(std::make_shared<Data>()) {
  data->shape = tensor.shape;
  data->slices = std::move(tensor);
}

Known::Known(graph::Tensor slices, ArrayRef<int64_t> shape)
    : data(std::make_shared<Data>()) {
  data->shape.assign(shape.begin(), shape.end());
  data->slices = std::move(slices);
}

const graph::Tensor &Known::operator*() const {
  if (!repeats())
    return data->slices;
  if (!data->whole)
    data->whole = std::make_unique<const graph::Tensor>(
        repeat(data->slices, data->shape));
  return *data->whole;
}

RankedTensorType Imported::getType() const {
  return constant ? RankedTensorType::get(constant.getShape(),
                                          constant.getSlices().elementType)
                  : cast<RankedTensorType>(value.getType());
}

Shape Imported::getShape() const {
  return Shape(constant ? constant.getShape()
                        : cast<RankedTensorType>(value.getType()).getShape());
}

bool Imported::isConstant() const {
  return constant && countElements(constant.getShape()) <= maxFolded;
}

int64_t Imported::getRank() const {
  return constant ? constant.getShape().size()
                  : cast<RankedTensorType>(value.getType()).getRank();
}

std::string toString(ArrayRef<int64_t> shape) {
  return "[" +
         llvm::join(llvm::map_range(
                        shape, [](int64_t dim) { return std::to_string(dim); }),
                    ", ") +
         "]";
}

FailureOr<Shape> broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Shape shape(a);
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &dim = shape[lead + i];
    if (dim == 1)
      dim = b[i];
    else if (b[i] != 1 && b[i] != dim)
      return failure();
  }
  return shape;
}

bool isParameter(const Imported &x) {
  return graph::Boundary::isParameterOrState(x.value);
}

int64_t countElements(ArrayRef<int64_t> shape) {
  constexpr int64_t most = int64_t(1) << 62;
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim <= 0)
      return 0;
    count = count > most / dim ? most : count * dim;
  }
  return count;
}

Type toComputedType(Type elementType) {
  return isa<FloatType>(elementType)
             ? Float32Type::get(elementType.getContext())
             : elementType;
}

SmallVector<int64_t> varyingDims(const graph::Tensor &tensor) {
  SmallVector<int64_t> dims;
  SmallVector<int64_t> strides = graph::getStrides(tensor.shape);
  // Bits are compared, so that NaN equals itself and -0 does not equal 0.
  const char *data =
      tensor.isFloat() ? reinterpret_cast<const char *>(tensor.floats.data())
                       : reinterpret_cast<const char *>(tensor.integers.data());
  for (int64_t dim = 0, n = tensor.size(); dim < tensor.getRank(); ++dim) {
    int64_t bytes = 8 * strides[dim], size = tensor.shape[dim];
    for (int64_t i = 0; i < n / strides[dim]; ++i)
      if (i % size != 0 &&
          std::memcmp(data + i * bytes, data + (i - 1) * bytes, bytes) != 0) {
        dims.push_back(dim);
        break;
      }
  }
  return dims;
}

graph::Tensor toComputed(graph::Tensor tensor) {
  Type type = toComputedType(tensor.elementType);
  if (type == tensor.elementType)
    return tensor;
  tensor.elementType = type;
  for (double &value : tensor.floats)
    if (std::isfinite(value))
      value = std::clamp<double>(value, -FLT_MAX, FLT_MAX);
  tensor.round();
  return tensor;
}

} // namespace polyrank::frontends
