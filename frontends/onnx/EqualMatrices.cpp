// Compares stored matrices, in pieces.

#include "frontends/onnx/EqualMatrices.h"

#include <algorithm>
#include <cstring>

namespace polyrank::frontends::onnx {

namespace {

constexpr uint64_t pieceBytes = 4 << 20;

/// Reads bytes [offset, offset + into.size()) of a tensor.
bool readBytes(const Model &model, const StoredTensor &tensor, uint64_t offset,
               std::vector<char> &into) {
  if (!tensor.external) {
    if (offset > tensor.bytes.size() ||
        into.size() > tensor.bytes.size() - offset)
      return false;
    std::memcpy(into.data(), tensor.bytes.data() + offset, into.size());
    return true;
  }
  return bool(model.externals[*tensor.external].read(
      tensor.span->offset + offset, into));
}

} // namespace

bool isConstant(const Model &model, const StoredTensor &tensor) {
  if (tensor.isAbsent)
    return false;
  uint64_t width = bytesOf(tensor.type);
  uint64_t total = static_cast<uint64_t>(tensor.numElements()) * width;
  std::vector<char> first(width);
  if (total < width || !readBytes(model, tensor, 0, first))
    return true;
  // The first piece is small, since most tensors differ early.
  uint64_t piece = 4096;
  for (uint64_t at = width; at < total; piece = pieceBytes) {
    std::vector<char> bytes(std::min(piece / width * width, total - at));
    if (!readBytes(model, tensor, at, bytes))
      return true;
    for (uint64_t i = 0; i < bytes.size(); i += width)
      if (std::memcmp(bytes.data() + i, first.data(), width) != 0)
        return false;
    at += bytes.size();
  }
  return true;
}

bool areEqual(const Model &model, const StoredTensor &a, const StoredTensor &b,
              bool transposed) {
  if (a.isAbsent || b.isAbsent)
    return false;
  if (a.type != b.type || a.dims.size() != 2 || b.dims.size() != 2 ||
      a.dims[0] != b.dims[transposed ? 1 : 0] ||
      a.dims[1] != b.dims[transposed ? 0 : 1])
    return false;
  uint64_t width = bytesOf(a.type), rows = static_cast<uint64_t>(a.dims[0]),
           columns = static_cast<uint64_t>(a.dims[1]);
  if (width == 0 || rows == 0 || columns == 0)
    return false;
  auto place = [&](uint64_t row, uint64_t column) {
    return transposed ? column * rows + row : row * columns + column;
  };
  constexpr uint64_t samples = 64;
  std::vector<char> left(width), right(width);
  for (uint64_t i = 0; i < samples; ++i) {
    uint64_t row = i * 7919 % rows, column = (i * 104729 + i / rows) % columns;
    if (!readBytes(model, a, (row * columns + column) * width, left) ||
        !readBytes(model, b, place(row, column) * width, right) ||
        left != right)
      return false;
  }
  // Reads blocks of rows of `a` and of columns of `b`; their contiguous runs in
  // `b` are long enough for separate reads.
  uint64_t step = std::clamp<uint64_t>(pieceBytes / (columns * width), 1, rows);
  for (uint64_t row = 0; row < rows; row += step) {
    uint64_t count = std::min(step, rows - row);
    left.resize(count * columns * width);
    if (!readBytes(model, a, row * columns * width, left))
      return false;
    if (!transposed) {
      right.resize(left.size());
      if (!readBytes(model, b, row * columns * width, right) || left != right)
        return false;
      continue;
    }
    right.resize(count * width);
    for (uint64_t column = 0; column < columns; ++column) {
      if (!readBytes(model, b, place(row, column) * width, right))
        return false;
      for (uint64_t i = 0; i < count; ++i)
        if (std::memcmp(left.data() + (i * columns + column) * width,
                        right.data() + i * width, width) != 0)
          return false;
    }
  }
  return true;
}

} // namespace polyrank::frontends::onnx
