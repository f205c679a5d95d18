// Indices into dims, and operations on the positions of elements.

#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends {

using graph::Comparison;

Imported wrapIndices(Emitter &emit, const Imported &indices, int64_t size) {
  if (indices.isConstant() && isa<IntegerType>(indices.getElementType())) {
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

std::optional<int64_t> startOfRun(const Imported &indices) {
  if (!indices.isConstant() || indices.constant->integers.empty())
    return std::nullopt;
  ArrayRef<int64_t> values(indices.constant->integers);
  for (auto [i, value] : llvm::enumerate(values))
    if (value != values.front() + static_cast<int64_t>(i))
      return std::nullopt;
  return values.front();
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

SmallVector<int64_t> axisLast(int64_t axis, int64_t rank) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(rank));
  order.erase(order.begin() + axis);
  order.push_back(axis);
  return order;
}

SmallVector<int64_t> axisBack(int64_t axis, int64_t rank) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(rank - 1));
  order.insert(order.begin() + axis, rank - 1);
  return order;
}

FailureOr<Imported> gatherAlong(Emitter &emit, const Imported &x,
                                const Imported &indices, int64_t axis) {
  Shape shape = x.getShape(), given = indices.getShape();
  int64_t rank = x.getRank();
  bool fits = shape.size() == given.size();
  for (int64_t dim = 0; fits && dim < rank; ++dim)
    fits = dim == axis || given[dim] <= shape[dim];
  if (!fits)
    return emit.fail("indices of " + toString(given) + " into " +
                     toString(shape));
  Imported part = x;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != axis)
      part = emit.slice(part, dim, 0, given[dim]);
  Imported places = wrapIndices(emit, indices, shape[axis]);
  if (places.isConstant())
    for (int64_t index : places.constant->integers)
      if (index < 0 || index >= shape[axis])
        return emit.fail("index " + Twine(index) + " into a dim of " +
                         Twine(shape[axis]));
  SmallVector<int64_t> order = axisLast(axis, rank);
  return emit.transpose(emit.binary<graph::GatherOp>(
                            emit.transpose(part, order),
                            emit.transpose(places, order), rank - 1, rank - 1),
                        axisBack(axis, rank));
}

FailureOr<Imported> triangleOf(Emitter &emit, const Imported &x, int64_t k,
                               bool isUpper) {
  Shape shape = x.getShape();
  if (shape.size() < 2)
    return emit.fail("a triangle of " + toString(shape));
  Shape matrix = {shape[shape.size() - 2], shape.back()};
  Type index = IntegerType::get(emit.getBuilder().getContext(), 64);
  Imported distance = emit.binary<graph::SubOp>(emit.iota(matrix, 1, index),
                                                emit.iota(matrix, 0, index));
  Imported kept = emit.binaryOver<graph::CompareOp>(
      distance, emit.scalar(index, static_cast<double>(k)),
      isUpper ? Comparison::GE : Comparison::LE);
  bool known = x.isConstant();
  return emit.select(
      emit.broadcast(kept, shape, !known), x,
      emit.broadcast(emit.scalar(x.getElementType(), 0), shape, !known));
}

/// The cumulative sum of a known tensor, from which exports build masks, in one
/// pass.
static graph::Tensor sumKnown(const graph::Tensor &x, int64_t axis,
                              bool exclusive, bool reverse) {
  int64_t size = x.shape[axis], stride = graph::getStrides(x.shape)[axis];
  graph::Tensor sums(x.elementType, x.shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t row = i / stride % size, first = i - row * stride;
    if (row != 0)
      continue;
    double sum = 0;
    for (int64_t step = 0; step < size; ++step) {
      int64_t at = first + (reverse ? size - 1 - step : step) * stride;
      if (exclusive)
        sums.set(at, sum);
      sum += x.at(at);
      if (!exclusive)
        sums.set(at, sum);
    }
  }
  return sums;
}

FailureOr<Imported> cumulativeSum(Emitter &emit, const Imported &x,
                                  int64_t axis, bool exclusive, bool reverse) {
  if (x.getElementType().isInteger(1))
    return emit.fail(
        "a cumulative sum of booleans; convert them to integers (x.long())");
  if (x.isConstant())
    return Imported(sumKnown(*x.constant, axis, exclusive, reverse));
  // [.., i, j, ..]
  Shape pairs = x.getShape(), apart = pairs;
  pairs.insert(pairs.begin() + axis, pairs[axis]);
  apart.insert(apart.begin() + axis + 1, 1);
  if (failed(emit.fits(pairs)))
    return failure();
  int64_t size = pairs[axis];
  Shape square = {size, size};
  Type index = emit.getBuilder().getI64Type();
  auto comparison = reverse     ? exclusive ? Comparison::GT : Comparison::GE
                    : exclusive ? Comparison::LT
                                : Comparison::LE;
  Imported counts = emit.binary<graph::CompareOp>(
      emit.iota(square, 0, index), emit.iota(square, 1, index), comparison);
  square.append(pairs.size() - axis - 2, 1);
  Imported repeated = emit.broadcast(emit.reshape(x, apart), pairs, false);
  Imported counted = emit.select(
      emit.broadcast(emit.reshape(counts, square), pairs, true), repeated,
      emit.broadcast(emit.scalar(x.getElementType(), 0), pairs, true));
  return emit.reduce(sharding::ReductionKind::Sum, counted, axis);
}

Imported prefixScan(
    Emitter &emit, Imported x, int64_t axis,
    llvm::function_ref<Imported(const Imported &, const Imported &)> combine) {
  int64_t size = x.getRank() ? x.getShape()[axis] : 1;
  for (int64_t step = 1; step < size; step *= 2)
    x = emit.concat({emit.slice(x, axis, 0, step),
                     combine(emit.slice(x, axis, 0, size - step),
                             emit.slice(x, axis, step, size))},
                    axis);
  return x;
}

Imported argExtremum(Emitter &emit, const Imported &x, int64_t axis,
                     bool largest, bool last) {
  using sharding::ReductionKind;
  Shape shape = x.getShape();
  auto kind = largest ? ReductionKind::Max : ReductionKind::Min;
  Imported extremum = emit.keepDims(emit.reduce(kind, x, axis), shape, axis);
  // Compared by "not beyond", so that even if the extremum is NaN the index is
  // one of the dim.
  Imported isOther = emit.binaryOver<graph::CompareOp>(
      x, extremum, largest ? Comparison::LT : Comparison::GT);
  Type index = emit.getBuilder().getI64Type();
  Imported none =
      emit.scalar(index, last ? -1 : static_cast<double>(shape[axis]));
  bool known = isOther.isConstant();
  Imported candidates =
      emit.select(isOther, emit.broadcast(none, shape, !known),
                  emit.iota(shape, axis, index));
  return emit.reduce(last ? ReductionKind::Max : ReductionKind::Min, candidates,
                     axis);
}

} // namespace polyrank::frontends
