// Sorting, top-k and searches in sorted dims.

#include "frontends/emit/Order.h"

#include <cmath>
#include <limits>

#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends {

using graph::Comparison;
using sharding::ReductionKind;

/// In rows longer than this, a few passes replace the comparison of all pairs,
/// if they suffice.
constexpr int64_t mostCompared = 1024;
constexpr int64_t mostPasses = 64;

/// Returns true if element a of known x comes before element b, which is
/// unequal.
static bool isBefore(const graph::Tensor &x, int64_t a, int64_t b,
                     bool descending) {
  if (!descending)
    return isBefore(x, b, a, /*descending=*/true);
  if (!x.isFloat())
    return x.integers[a] > x.integers[b];
  if (std::isnan(x.floats[a]) || std::isnan(x.floats[b]))
    return !std::isnan(x.floats[b]);
  return x.floats[a] > x.floats[b];
}

/// Sorts elements that are known.
static graph::Tensor orderKnown(Emitter &emit, const graph::Tensor &x,
                                int64_t k, int64_t dim, bool descending) {
  int64_t size = x.shape[dim], stride = graph::getStrides(x.shape)[dim];
  Shape shape = x.shape;
  shape[dim] = k;
  graph::Tensor order(emit.getBuilder().getI64Type(), shape);
  int64_t row = 0; // counts rows in the order of their first elements
  for (int64_t i = 0; i < x.size(); ++i) {
    if (i / stride % size != 0)
      continue;
    SmallVector<int64_t> places = llvm::to_vector(llvm::seq<int64_t>(size));
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
      return isBefore(x, i + a * stride, i + b * stride, descending);
    });
    int64_t first = row / stride * stride * k + row % stride;
    for (int64_t j = 0; j < k; ++j)
      order.integers[first + j * stride] = places[j];
    ++row;
  }
  return order;
}

/// True, elementwise, where a comes before b; false for equal elements.
static Imported areBefore(Emitter &emit, const Imported &a, const Imported &b,
                          bool descending) {
  if (!descending)
    return areBefore(emit, b, a, /*descending=*/true);
  if (!isa<FloatType>(a.getElementType()))
    return emit.binary<graph::CompareOp>(a, b, Comparison::GT);
  // Two NaN are equal; a single NaN is larger.
  Imported isNotAbove = emit.binary<graph::CompareOp>(a, b, Comparison::LE);
  return emit.binary<graph::AndOp>(
      emit.unary<graph::NotOp>(isNotAbove),
      emit.binary<graph::CompareOp>(b, b, Comparison::EQ));
}

/// The indices of the first `k`, from the rank of each element.
static FailureOr<Imported> indicesByPlaces(Emitter &emit, const Imported &x,
                                           int64_t k, int64_t dim,
                                           bool descending) {
  // [.., i, j, ..]: compares element i with element j.
  Shape pairs = x.getShape(), left = pairs, right = pairs;
  int64_t size = pairs[dim];
  pairs.insert(pairs.begin() + dim, size);
  left.insert(left.begin() + dim + 1, 1);
  right.insert(right.begin() + dim, 1);
  if (failed(emit.fits(pairs)))
    return failure();
  Type index = emit.getBuilder().getI64Type();
  // These are values, so that no table of all pairs is folded at import.
  auto count = [&](ArrayRef<int64_t> shape, int64_t along) {
    return Imported(emit.materialize(emit.iota(shape, along, index)));
  };
  auto spread = [&](const Imported &y, ArrayRef<int64_t> apart,
                    ArrayRef<int64_t> shape) {
    return emit.broadcast(emit.reshape(y, apart), shape, true);
  };
  Imported a = spread(x, left, pairs), b = spread(x, right, pairs);
  Imported isEarlier = emit.binary<graph::CompareOp>(
      count(pairs, dim), count(pairs, dim + 1), Comparison::LT);
  // Of equal elements the earlier one comes first.
  Imported isFirst = emit.select(
      isEarlier, emit.unary<graph::NotOp>(areBefore(emit, b, a, descending)),
      areBefore(emit, a, b, descending));
  Imported places =
      emit.reduce(ReductionKind::Sum, emit.convert(isFirst, index), {dim});
  // [.., j, rank, ..]: selects the single element j of each rank.
  Shape found = x.getShape(), apart = found;
  found.insert(found.begin() + dim + 1, k);
  apart.insert(apart.begin() + dim + 1, 1);
  Imported isThere = emit.binary<graph::CompareOp>(
      spread(places, apart, found), count(found, dim + 1), Comparison::EQ);
  return emit.reduce(
      ReductionKind::Sum,
      emit.select(isThere, count(found, dim),
                  emit.broadcast(emit.scalar(index, 0), found, true)),
      {dim});
}

/// The indices of the first `k`, each the extremum of the elements that are not
/// yet taken.
static Imported indicesByPasses(Emitter &emit, const Imported &x, int64_t k,
                                int64_t dim, bool descending) {
  Shape shape = x.getShape(), one = shape;
  one[dim] = 1;
  Type index = emit.getBuilder().getI64Type();
  Imported places = emit.iota(shape, dim, index);
  SmallVector<Imported> found;
  Imported taken; // taken elements are ignored, whatever their value
  auto spread = [&](const Imported &y) {
    return emit.broadcast(y, shape, !y.isConstant() || !x.isConstant());
  };
  auto kind = descending ? ReductionKind::Max : ReductionKind::Min;
  double infinity = std::numeric_limits<double>::infinity();
  Imported none = emit.scalar(index, static_cast<double>(shape[dim]));
  for (int64_t i = 0; i < k; ++i) {
    if (!taken) {
      found.push_back(emit.reshape(argExtremum(emit, x, dim, descending), one));
    } else {
      Imported left =
          emit.select(taken,
                      spread(emit.scalar(x.getElementType(),
                                         descending ? -infinity : infinity)),
                      x);
      Imported extremum =
          emit.keepDims(emit.reduce(kind, left, {dim}), shape, {dim});
      Imported isOther = emit.binary<graph::OrOp>(
          emit.binaryOver<graph::CompareOp>(
              left, extremum, descending ? Comparison::LT : Comparison::GT),
          taken);
      found.push_back(emit.keepDims(
          emit.reduce(ReductionKind::Min,
                      emit.select(isOther, spread(none), places), {dim}),
          shape, {dim}));
    }
    Imported isFound = emit.binary<graph::CompareOp>(
        places, spread(found.back()), Comparison::EQ);
    taken = taken ? emit.binary<graph::OrOp>(taken, isFound) : isFound;
  }
  return emit.concat(found, dim);
}

FailureOr<Ordered> takeInOrder(Emitter &emit, const Imported &x, int64_t k,
                               int64_t dim, bool descending) {
  Shape shape = x.getShape();
  if (k < 0 || k > shape[dim])
    return emit.fail(Twine(k) + " elements of a dim of " + Twine(shape[dim]));
  if (k == 0)
    return emit.fail("no elements of a dim of " + Twine(shape[dim]));
  if (x.getElementType().isInteger(1))
    return emit.fail("an order of booleans; convert them to integers "
                     "(x.int())");
  Imported indices;
  if (x.isConstant()) {
    indices = orderKnown(emit, *x.constant, k, dim, descending);
  } else if (shape[dim] > mostCompared && k <= mostPasses) {
    indices = indicesByPasses(emit, x, k, dim, descending);
  } else {
    auto found = indicesByPlaces(emit, x, k, dim, descending);
    if (failed(found))
      return failure();
    indices = *found;
  }
  auto values = gatherAlong(emit, x, indices, dim);
  if (failed(values))
    return failure();
  return Ordered{*values, indices};
}

FailureOr<Imported> countBefore(Emitter &emit, const Imported &sorted,
                                const Imported &values, bool right) {
  Shape shape = values.getShape(), row = sorted.getShape();
  if (row.empty())
    return emit.fail("a sorted sequence without dims");
  int64_t count = row.back();
  bool isOne = row.size() == 1;
  if (!isOne && (row.size() != shape.size() ||
                 ArrayRef(row).drop_back() != ArrayRef(shape).drop_back()))
    return emit.fail("values of " + toString(shape) +
                     " in sorted sequences of " + toString(row));
  // [.., m, n]
  Shape pairs = shape, apart = shape, spread = row;
  pairs.push_back(count);
  apart.push_back(1);
  if (!isOne)
    spread.insert(spread.end() - 1, 1);
  if (failed(emit.fits(pairs)))
    return failure();
  bool isValue = !sorted.isConstant() || !values.isConstant();
  Imported isAfter = emit.binary<graph::CompareOp>(
      emit.broadcast(emit.reshape(sorted, spread), pairs, isValue),
      emit.broadcast(emit.reshape(values, apart), pairs, isValue),
      right ? Comparison::GT : Comparison::GE);
  return emit.reduce(ReductionKind::Sum,
                     emit.convert(emit.unary<graph::NotOp>(isAfter),
                                  emit.getBuilder().getI64Type()),
                     {static_cast<int64_t>(shape.size())});
}

} // namespace polyrank::frontends
