// Opens a state_dict that is given beside a model, and compares tensors with
// the model's.

#include "frontends/onnx/NamedTensors.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>

#include "support/ElementValues.h"
#include "support/safetensors/Safetensors.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

Result<NamedTensors> openNamedTensors(Model &model, const std::string &path) {
  POLYRANK_ASSIGN(file, SafetensorsFile::open(path));
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return Error{path + ": cannot be read a second time"};
  NamedTensors result;
  result.path = path;
  uint64_t size = 0;
  std::vector<const StoredTensorSpan *> spans;
  for (const StoredTensorSpan &span : file.tensors()) {
    size = std::max(size, span.offset + span.length);
    spans.push_back(&span);
  }
  llvm::sort(spans, [](auto *a, auto *b) { return a->name < b->name; });
  size_t external = model.externals.size();
  model.externals.emplace_back(path, descriptor, size);
  for (const StoredTensorSpan *span : spans) {
    if (!isInPrograms(span->dtype)) {
      result.unreadable.push_back(
          span->name + " (" + std::string(safetensorsName(span->dtype)) + ")");
      continue;
    }
    MadeTensor &tensor = result.tensors.emplace_back();
    tensor.ownName = span->name;
    tensor.name = tensor.ownName;
    tensor.type = span->dtype;
    tensor.dims = span->shape;
    tensor.external = external;
    tensor.span = FileSpan{path, span->offset, span->length};
  }
  return result;
}

//===-- comparison -------------------------------------------------------===//

namespace {

constexpr uint64_t pieceElements = 1 << 20;

bool readElements(const Model &model, const StoredTensor &tensor,
                  uint64_t first, uint64_t count, std::vector<char> &bytes) {
  uint64_t width = bytesOf(tensor.type), offset = first * width;
  bytes.resize(count * width);
  if (tensor.external)
    return bool(model.externals[*tensor.external].read(
        tensor.span->offset + offset, bytes));
  if (offset > tensor.bytes.size() ||
      bytes.size() > tensor.bytes.size() - offset)
    return false;
  std::memcpy(bytes.data(), tensor.bytes.data() + offset, bytes.size());
  return true;
}

float roundTo(double value, const fltSemantics &semantics) {
  APFloat number(value);
  bool loses = false;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &loses);
  return static_cast<float>(number.convertToDouble());
}

double toDouble(const char *at, ElementType type) {
  return visitElements(type, [&]<typename T>(T) {
    return static_cast<double>(Arithmetic<T>(loadElement<T>(at)));
  });
}

/// Compares two tensors, which may be equal after rounding, element by element.
class Comparison {
public:
  Comparison(ElementType stored, ElementType named)
      : stored(stored), named(named) {}

  /// Returns false once no way of rounding explains all elements so far.
  bool add(const char *left, const char *right) {
    if (stored == named && exact && !half && !brain)
      return std::memcmp(left, right, bytesOf(stored)) == 0;
    double have = toDouble(left, stored), want = toDouble(right, named);
    exact = exact && have == toStored(want);
    half = half && have == toStored(roundTo(want, APFloat::IEEEhalf()));
    brain = brain && have == toStored(roundTo(want, APFloat::BFloat()));
    return exact || half || brain;
  }

  /// If all elements so far are exact, requires the rest to be exact.
  void settle() {
    half = half && !exact;
    brain = brain && !exact;
  }

private:
  double toStored(double value) const {
    switch (stored) {
    case ElementType::F16:
      return roundTo(value, APFloat::IEEEhalf());
    case ElementType::BF16:
      return roundTo(value, APFloat::BFloat());
    case ElementType::F64:
      return value;
    default:
      return static_cast<float>(value);
    }
  }

  ElementType stored, named;
  bool exact = true, half = true, brain = true;
};

} // namespace

bool isCopyOf(const Model &model, const StoredTensor &stored,
              const StoredTensor &named, bool transposed) {
  if (!isFloat(stored.type) || !isFloat(named.type) || stored.isAbsent ||
      named.isAbsent)
    return false;
  std::vector<int64_t> dims = named.dims;
  if (transposed) {
    if (dims.size() != 2)
      return false;
    std::swap(dims[0], dims[1]);
  }
  if (stored.dims != dims || stored.numElements() == 0)
    return false;
  uint64_t count = static_cast<uint64_t>(stored.numElements());
  uint64_t columns = transposed ? static_cast<uint64_t>(dims[1]) : 1;
  uint64_t rows = transposed ? static_cast<uint64_t>(dims[0]) : count;
  // Maps an element number of one tensor to that of the other.
  auto place = [&](uint64_t i) {
    return transposed ? i % columns * rows + i / columns : i;
  };
  uint64_t leftWidth = bytesOf(stored.type), width = bytesOf(named.type);
  Comparison comparison(stored.type, named.type);
  std::vector<char> left, right;
  constexpr uint64_t samples = 64;
  for (uint64_t k = 0; k < std::min(samples, count); ++k) {
    uint64_t i = k * 104729 % count;
    if (!readElements(model, stored, i, 1, left) ||
        !readElements(model, named, place(i), 1, right) ||
        !comparison.add(left.data(), right.data()))
      return false;
  }
  comparison.settle();
  if (!transposed) {
    for (uint64_t first = 0; first < count; first += pieceElements) {
      uint64_t length = std::min(pieceElements, count - first);
      if (!readElements(model, stored, first, length, left) ||
          !readElements(model, named, first, length, right))
        return false;
      for (uint64_t i = 0; i < length; ++i)
        if (!comparison.add(left.data() + i * leftWidth,
                            right.data() + i * width))
          return false;
    }
    return true;
  }
  // Blocks of rows here, whose elements in each row there are contiguous.
  uint64_t step = std::clamp<uint64_t>(pieceElements / columns, 1, rows);
  for (uint64_t row = 0; row < rows; row += step) {
    uint64_t length = std::min(step, rows - row);
    if (!readElements(model, stored, row * columns, length * columns, left))
      return false;
    for (uint64_t column = 0; column < columns; ++column) {
      if (!readElements(model, named, column * rows + row, length, right))
        return false;
      for (uint64_t i = 0; i < length; ++i)
        if (!comparison.add(left.data() + (i * columns + column) * leftWidth,
                            right.data() + i * width))
          return false;
    }
  }
  return true;
}

} // namespace polyrank::frontends::onnx
