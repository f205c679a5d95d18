// Indices into dims, as ONNX counts them.

#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends {

Imported wrapIndices(Emitter &emit, const Imported &indices, int64_t size) {
  if (indices.isConstant()) {
    ArrayRef<int64_t> given(indices.constant->integers);
    if (llvm::none_of(given, [](int64_t index) { return index < 0; }))
      return indices;
    graph::Tensor wrapped = *indices.constant;
    for (int64_t &index : wrapped.integers)
      index += index < 0 ? size : 0;
    return wrapped;
  }
  Imported zero = emit.scalar(indices.getElementType(), 0);
  Imported negative =
      emit.binaryOver<graph::CompareOp>(indices, zero, graph::Comparison::LT);
  Imported wrapped = emit.binaryOver<graph::AddOp>(
      indices,
      emit.scalar(indices.getElementType(), static_cast<double>(size)));
  return emit.select(negative, wrapped, indices);
}

Imported linearIndex(Emitter &emit, ArrayRef<Imported> indices,
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
    Imported term = emit.binaryOver<graph::MulOp>(
        index,
        emit.scalar(index.getElementType(), static_cast<double>(stride)));
    if (!sum)
      sum = term;
    else if (sum.isConstant() && !term.isConstant())
      sum = emit.binaryOver<graph::AddOp>(term, sum);
    else
      sum = emit.binaryOver<graph::AddOp>(sum, term);
  }
  return sum;
}

Imported placesOf(Emitter &emit, const Imported &indices,
                  ArrayRef<int64_t> dims) {
  int64_t last = indices.getRank() - 1;
  Shape picked = indices.getShape();
  picked.pop_back();
  SmallVector<Imported> each;
  for (auto [i, size] : llvm::enumerate(dims)) {
    auto at = static_cast<int64_t>(i);
    each.push_back(wrapIndices(
        emit, emit.reshape(emit.slice(indices, last, at, at + 1), picked),
        size));
  }
  return linearIndex(emit, each, graph::getStrides(dims));
}

Imported placesAlong(Emitter &emit, const Imported &indices, int64_t axis,
                     ArrayRef<int64_t> shape) {
  SmallVector<Imported> each;
  for (auto [i, size] : llvm::enumerate(shape)) {
    auto dim = static_cast<int64_t>(i);
    each.push_back(dim == axis ? wrapIndices(emit, indices, size)
                               : emit.iota(indices.getShape(), dim,
                                           indices.getElementType()));
  }
  return linearIndex(emit, each, graph::getStrides(shape));
}

} // namespace polyrank::frontends
