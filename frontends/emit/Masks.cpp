// Selection by a mask that is computed at run time.

#include "frontends/emit/Masks.h"

#include <limits>

#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends {

using graph::Comparison;
using sharding::ReductionKind;

/// The number of elements per block of a prefix sum.
static constexpr int64_t partSize = 64;

/// Exclusive prefix sums along the last dim.
static FailureOr<Imported> sumBefore(Emitter &emit, const Imported &x) {
  Shape shape = x.getShape();
  int64_t last = x.getRank() - 1, size = shape[last];
  if (x.isConstant() || size <= partSize)
    return cumulativeSum(emit, x, last, /*exclusive=*/true);
  int64_t parts = llvm::divideCeil(size, partSize);
  Imported whole = x;
  if (int64_t missing = parts * partSize - size) {
    Shape rest = shape;
    rest[last] = missing;
    whole = emit.concat(
        {x, emit.broadcast(emit.scalar(x.getElementType(), 0), rest, true)},
        last);
  }
  Shape apart(shape.begin(), shape.end() - 1), together = apart;
  apart.push_back(parts);
  together.push_back(parts * partSize);
  Shape totals = apart;
  apart.push_back(partSize);
  totals.push_back(1);
  whole = emit.reshape(whole, apart);
  auto inner = cumulativeSum(emit, whole, last + 1, /*exclusive=*/true);
  auto outer =
      sumBefore(emit, emit.reduce(ReductionKind::Sum, whole, {last + 1}));
  if (failed(inner) || failed(outer))
    return failure();
  Imported sums = emit.binary<graph::AddOp>(
      *inner, emit.broadcast(emit.reshape(*outer, totals), apart, true));
  return emit.slice(emit.reshape(sums, together), last, 0, size);
}

/// Exclusive prefix sums over all elements in row-major order.
static FailureOr<Imported> sumBeforeInRows(Emitter &emit, const Imported &x) {
  auto along = sumBefore(emit, x);
  if (failed(along) || x.getRank() == 1)
    return along;
  Shape shape = x.getShape(), rows = shape;
  int64_t last = x.getRank() - 1;
  rows[last] = 1;
  auto before =
      sumBeforeInRows(emit, emit.reduce(ReductionKind::Sum, x, {last}));
  if (failed(before))
    return failure();
  return emit.binary<graph::AddOp>(
      *along,
      emit.broadcast(emit.reshape(*before, rows), shape, !x.isConstant()));
}

Imported numberTrue(Emitter &emit, const Imported &mask) {
  Type index = emit.getBuilder().getI64Type();
  Imported x = emit.convert(mask, index);
  Shape shape = mask.getShape();
  bool known = mask.isConstant();
  auto none = [&](double value) {
    return emit.broadcast(emit.scalar(index, value), shape, !known);
  };
  if (shape.empty())
    return emit.select(mask, none(0), none(-1));
  auto before = sumBeforeInRows(emit, x);
  return emit.select(mask, failed(before) ? none(0) : *before, none(-1));
}

Imported countTrue(Emitter &emit, const Imported &mask) {
  Type index = emit.getBuilder().getI64Type();
  Imported x = emit.convert(mask, index);
  if (mask.getRank() == 0)
    return x;
  return emit.reduce(ReductionKind::Sum, x,
                     llvm::to_vector(llvm::seq<int64_t>(mask.getRank())));
}

/// `x`, with floats set to NaN where `condition`, which is broadcast, is false.
static Imported orNaN(Emitter &emit, const Imported &condition,
                      const Imported &x) {
  if (!isa<FloatType>(x.getElementType()))
    return x;
  bool known = condition.isConstant() && x.isConstant();
  auto over = [&](const Imported &y) {
    return emit.broadcast(y, x.getShape(), !known);
  };
  return emit.select(
      over(condition), x,
      over(emit.scalar(x.getElementType(),
                       std::numeric_limits<double>::quiet_NaN())));
}

static Imported isEqual(Emitter &emit, const Imported &count, int64_t to) {
  return emit.binaryOver<graph::CompareOp>(
      count, emit.scalar(count.getElementType(), static_cast<double>(to)),
      Comparison::EQ);
}

/// Writes each slice of `updates` along `axis` [m] to the index [count] that
/// `numbers` [m] gives; slices with -1 are dropped.
static Imported placeSlices(Emitter &emit, const Imported &numbers,
                            const Imported &updates, int64_t axis,
                            int64_t count) {
  bool isFlag = updates.getElementType().isInteger(1);
  Type index = emit.getBuilder().getI64Type();
  Imported added = isFlag ? emit.convert(updates, index) : updates;
  Shape shape = updates.getShape();
  shape[axis] = count;
  Imported placed = emit.emit(
      {numbers, added}, [&](OpBuilder &b, ValueRange v) -> Operation * {
        return graph::ScatterAddOp::create(
            b, emit.getLocation(),
            RankedTensorType::get(shape, added.getElementType()), v[0], v[1],
            /*init=*/Value(), /*axis=*/axis, /*batch_dims=*/0);
      })[0];
  return isFlag ? emit.convert(placed, updates.getElementType()) : placed;
}

Imported takeTrue(Emitter &emit, const Imported &x, const Imported &mask,
                  int64_t axis, int64_t count) {
  int64_t size = countElements(mask.getShape());
  Shape merged = x.getShape();
  merged.erase(merged.begin() + axis, merged.begin() + axis + mask.getRank());
  merged.insert(merged.begin() + axis, size);
  Imported taken =
      placeSlices(emit, emit.reshape(numberTrue(emit, mask), {size}),
                  emit.reshape(x, merged), axis, count);
  return orNaN(emit, isEqual(emit, countTrue(emit, mask), count), taken);
}

SmallVector<Imported> placesTrue(Emitter &emit, const Imported &mask,
                                 int64_t count) {
  Shape shape = mask.getShape();
  int64_t size = countElements(shape);
  Imported numbers = emit.reshape(numberTrue(emit, mask), {size});
  SmallVector<Imported> places;
  for (int64_t dim = 0; dim < mask.getRank(); ++dim) {
    Imported along = emit.iota(shape, dim, emit.getBuilder().getI64Type());
    places.push_back(
        placeSlices(emit, numbers, emit.reshape(along, {size}), 0, count));
  }
  return places;
}

Imported putTrue(Emitter &emit, const Imported &x, const Imported &mask,
                 const Imported &source, int64_t axis, bool isWhole) {
  int64_t rank = mask.getRank(), count = source.getShape()[axis];
  Imported numbers = numberTrue(emit, mask);
  Imported picked = emit.binary<graph::GatherOp>(source, numbers, axis);
  Shape shape = x.getShape(), over(shape.size(), 1);
  for (int64_t i = 0; i < rank; ++i)
    over[axis + i] = shape[axis + i];
  auto spread = [&](const Imported &y) {
    bool known = y.isConstant() && x.isConstant() && picked.isConstant();
    return emit.broadcast(emit.reshape(y, over), shape, !known);
  };
  Imported enough = emit.binaryOver<graph::CompareOp>(
      numbers,
      emit.scalar(numbers.getElementType(), static_cast<double>(count)),
      Comparison::LT);
  picked = orNaN(emit, spread(enough), picked);
  Imported put = emit.select(spread(mask), picked, x);
  return isWhole ? orNaN(emit, isEqual(emit, countTrue(emit, mask), count), put)
                 : put;
}

/// Drops the last dims of a mask along which it repeats: a mask [4, 12, 1] over
/// [4, 12, 32] selects whole rows.
static Imported withoutRepeated(Emitter &emit, Imported mask) {
  int64_t rank = mask.getRank(), kept = rank;
  if (mask.constant) {
    SmallVector<int64_t> varying = varyingDims(*mask.constant);
    kept = varying.empty() ? 0 : varying.back() + 1;
  } else if (auto op = mask.value.getDefiningOp<graph::BroadcastOp>()) {
    kept = op.getDims().empty() ? 0 : op.getDims().back() + 1;
  }
  // At least one dim is kept, so that there is something to count along.
  kept = std::max<int64_t>(kept, std::min<int64_t>(rank, 1));
  Shape shape = mask.getShape();
  for (int64_t dim = kept; dim < rank; ++dim)
    mask = emit.slice(mask, dim, 0, 1);
  return emit.reshape(mask, ArrayRef(shape).take_front(kept));
}

FailureOr<Imported> scatterTrue(Emitter &emit, const Imported &x,
                                const Imported &mask, const Imported &source) {
  auto all = emit.broadcastAll({x, mask});
  if (failed(all))
    return failure();
  Shape shape = (*all)[0].getShape();
  if (shape.empty())
    for (Imported &each : *all)
      each = emit.reshape(each, {1});
  const Imported &into = (*all)[0];
  Imported picks = withoutRepeated(emit, (*all)[1]);
  // Elements beyond the last whole slice are not used.
  Shape slices = into.getShape();
  slices.erase(slices.begin(), slices.begin() + picks.getRank());
  int64_t given = countElements(source.getShape()),
          size = countElements(slices), count = size ? given / size : 0;
  if (count == 0)
    return emit.fail("slices of " + toString(slices) + " from a source of " +
                     toString(source.getShape()));
  Imported taken = source;
  if (given != count * size)
    taken = emit.slice(emit.reshape(source, {given}), 0, 0, count * size);
  slices.insert(slices.begin(), count);
  Imported result = putTrue(emit, into, picks, emit.reshape(taken, slices), 0,
                            /*isWhole=*/false);
  return emit.reshape(result, shape);
}

} // namespace polyrank::frontends
