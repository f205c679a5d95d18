// Indices into dims, as ONNX counts them.

#include "frontends/onnx/Indices.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

Imported wrapIndices(NodeImporter &n, const Imported &indices, int64_t size) {
  if (indices.isConstant()) {
    ArrayRef<int64_t> given(indices.constant->integers);
    if (llvm::none_of(given, [](int64_t index) { return index < 0; }))
      return indices;
    graph::Tensor wrapped = *indices.constant;
    for (int64_t &index : wrapped.integers)
      index += index < 0 ? size : 0;
    return wrapped;
  }
  Imported zero = n.emit.scalar(indices.getElementType(), 0);
  Imported negative =
      n.emit.binaryOver<graph::CompareOp>(indices, zero, graph::Comparison::LT);
  Imported wrapped = n.emit.binaryOver<graph::AddOp>(
      indices,
      n.emit.scalar(indices.getElementType(), static_cast<double>(size)));
  return n.emit.select(negative, wrapped, indices);
}

Imported linearIndex(NodeImporter &n, ArrayRef<Imported> indices,
                     ArrayRef<int64_t> strides) {
  if (llvm::all_of(indices, [](const Imported &x) { return x.isConstant(); })) {
    graph::Tensor sum(indices[0].getElementType(), indices[0].getShape());
    for (auto [index, stride] : llvm::zip(indices, strides))
      for (auto [total, at] : llvm::zip(sum.integers, index.constant->integers))
        total += at * stride;
    return sum;
  }
  Imported sum;
  for (auto [index, stride] : llvm::zip(indices, strides)) {
    Imported term = n.emit.binaryOver<graph::MulOp>(
        index,
        n.emit.scalar(index.getElementType(), static_cast<double>(stride)));
    if (!sum)
      sum = term;
    else if (sum.isConstant() && !term.isConstant())
      sum = n.emit.binaryOver<graph::AddOp>(term, sum);
    else
      sum = n.emit.binaryOver<graph::AddOp>(sum, term);
  }
  return sum;
}

Imported placesOf(NodeImporter &n, const Imported &indices,
                  ArrayRef<int64_t> dims) {
  int64_t last = indices.getRank() - 1;
  Shape picked = indices.getShape();
  picked.pop_back();
  SmallVector<Imported> each;
  for (auto [i, size] : llvm::enumerate(dims)) {
    auto at = static_cast<int64_t>(i);
    each.push_back(wrapIndices(
        n, n.emit.reshape(n.emit.slice(indices, last, at, at + 1), picked),
        size));
  }
  return linearIndex(n, each, graph::getStrides(dims));
}

Imported placesAlong(NodeImporter &n, const Imported &indices, int64_t axis,
                     ArrayRef<int64_t> shape) {
  SmallVector<Imported> each;
  for (auto [i, size] : llvm::enumerate(shape)) {
    auto dim = static_cast<int64_t>(i);
    each.push_back(dim == axis ? wrapIndices(n, indices, size)
                               : n.emit.iota(indices.getShape(), dim,
                                             indices.getElementType()));
  }
  return linearIndex(n, each, graph::getStrides(shape));
}

} // namespace polyrank::frontends::onnx
