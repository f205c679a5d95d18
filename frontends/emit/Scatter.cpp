// Writes slices and elements into a tensor by index.

#include "frontends/emit/Scatter.h"

#include <limits>

#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends {

/// For each position of a dim of `size`, the number of the update that it gets:
/// the last one whose index names it, or -1. Fails if an index is out of range.
static FailureOr<graph::Tensor>
findSources(Emitter &emit, const graph::Tensor &places, int64_t size) {
  if (size > maxFolded)
    return emit.fail("known indices into a dim of " + Twine(size) +
                     "; at most " + Twine(maxFolded));
  graph::Tensor sources(emit.getBuilder().getI64Type(), {size});
  llvm::fill(sources.integers, -1);
  for (auto [i, place] : llvm::enumerate(places.integers)) {
    if (place < 0 || place >= size)
      return emit.fail("its indices lead to element " + Twine(place) +
                       " of a dim of " + Twine(size));
    sources.integers[place] = static_cast<int64_t>(i);
  }
  return sources;
}

/// `x` where `sources` is -1, else the slice of `updates` with that number
/// along dim `axis`. The dims of `sources` are those of x from `axis` on.
static Imported replace(Emitter &emit, const Imported &x, graph::Tensor sources,
                        const Imported &updates, int64_t axis) {
  Imported isNew = emit.binaryOver<graph::CompareOp>(
      sources, emit.scalar(sources.elementType, 0), graph::Comparison::GE);
  bool all = llvm::all_of(sources.integers, [](int64_t i) { return i >= 0; });
  Shape over = sources.shape;
  Imported gathered =
      emit.binary<graph::GatherOp>(updates, std::move(sources), axis);
  if (all)
    return gathered;
  over.append(x.getRank() - axis - over.size(), 1);
  bool known = x.isConstant() && gathered.isConstant();
  return emit.select(
      emit.broadcast(emit.reshape(isNew, over), x.getShape(), !known), gathered,
      x);
}

/// For each slice of a dim of `size`, the numbers of the slices to combine:
/// `count` + its own number, then the updates that known `places` assign to it,
/// padded with `count` + `size` to the length of the longest list.
static FailureOr<graph::Tensor>
groupByPlace(Emitter &emit, const graph::Tensor &places, int64_t size) {
  int64_t count = places.size(), most = 0;
  if (size > maxFolded)
    return emit.fail("a dim of " + Twine(size) + " is too large for that");
  std::vector<std::vector<int64_t>> groups(size);
  for (auto [i, place] : llvm::enumerate(places.integers)) {
    if (place < 0 || place >= size)
      return emit.fail("its indices lead to element " + Twine(place) +
                       " of a dim of " + Twine(size));
    groups[place].push_back(static_cast<int64_t>(i));
    most = std::max<int64_t>(most, groups[place].size());
  }
  if (countElements({size, 1 + most}) > maxFolded)
    return emit.fail(Twine(most) + " indices lead to one element of a dim of " +
                     Twine(size) + ", which is too many");
  graph::Tensor members(emit.getBuilder().getI64Type(), {size, 1 + most});
  llvm::fill(members.integers, count + size);
  for (int64_t i = 0; i < size; ++i) {
    auto row = members.integers.begin() + i * (1 + most);
    *row = count + i;
    llvm::copy(groups[i], row + 1);
  }
  return members;
}

/// Returns true for products and extrema, for which, unlike sums, there is no
/// op that combines an element and its updates.
static bool needsMembers(Scatter reduction) {
  return reduction == Scatter::Mul || reduction == Scatter::Max ||
         reduction == Scatter::Min;
}

/// The neutral element of the combination.
static Imported neutral(Emitter &emit, Type type, Scatter reduction) {
  if (reduction == Scatter::Mul)
    return emit.scalar(type, 1);
  double infinity = std::numeric_limits<double>::infinity();
  return emit.scalar(type, reduction == Scatter::Max ? -infinity : infinity);
}

static Imported combined(Emitter &emit, const Imported &x, int64_t dim,
                         Scatter reduction) {
  if (reduction == Scatter::Mul)
    return productOver(emit, x, {dim});
  return emit.reduce(reduction == Scatter::Max ? sharding::ReductionKind::Max
                                               : sharding::ReductionKind::Min,
                     x, {dim});
}

/// Combines x [b.., n, a..] with the updates [b.., m, a..] at the indices
/// `places` [b.., m], by a product or an extremum. Each slice compares with all
/// updates of its row.
static FailureOr<Imported> combineMembers(Emitter &emit, const Imported &x,
                                          const Imported &places,
                                          const Imported &updates,
                                          Scatter reduction) {
  constexpr int64_t mostCompared = int64_t(1) << 28;
  Shape shape = x.getShape(), given = places.getShape();
  int64_t row = places.getRank() - 1, size = shape[row], count = given[row];
  Shape compared(shape); // [b.., n, m, a..]
  compared.insert(compared.begin() + row + 1, count);
  if (countElements(compared) > mostCompared)
    return emit.fail(
        "a product or extremum of " + Twine(count) + " updates for each of " +
        Twine(size) +
        " slices by indices that are not known when the model is "
        "compiled, which compares each with each; make the indices "
        "constants of the model, or scatter fewer at once");
  Shape pairs(given), apart(given);
  pairs.insert(pairs.begin() + row, size);
  apart.insert(apart.begin() + row, 1);
  Imported isMember = emit.binary<graph::CompareOp>(
      emit.broadcast(emit.reshape(places, apart), pairs, true),
      emit.materialize(emit.iota(pairs, row, places.getElementType())),
      graph::Comparison::EQ);
  Shape over(pairs), wide = updates.getShape(), self(shape);
  over.append(shape.size() - row - 1, 1);
  wide.insert(wide.begin() + row, 1);
  self.insert(self.begin() + row + 1, 1);
  Imported candidates =
      emit.select(emit.broadcast(emit.reshape(isMember, over), compared, true),
                  emit.broadcast(emit.reshape(updates, wide), compared, true),
                  emit.broadcast(neutral(emit, x.getElementType(), reduction),
                                 compared, true));
  return combined(emit,
                  emit.concat({emit.reshape(x, self), candidates}, row + 1),
                  row + 1, reduction);
}

/// `combineMembers` along the first dim, where known places limit each slice to
/// the few updates that belong to it.
static FailureOr<Imported> combineSlices(Emitter &emit, const Imported &x,
                                         const Imported &places,
                                         const Imported &updates,
                                         Scatter reduction) {
  Shape one = x.getShape();
  int64_t size = one[0];
  if (!places.isConstant() || size > maxFolded)
    return combineMembers(emit, x, places, updates, reduction);
  auto members = groupByPlace(emit, *places.constant, size);
  if (failed(members))
    return failure();
  one[0] = 1;
  Imported nothing = neutral(emit, x.getElementType(), reduction);
  Imported all = emit.concat(
      {updates, x, emit.broadcast(nothing, one, !x.isConstant())}, 0);
  return combined(emit,
                  emit.binary<graph::GatherOp>(all, std::move(*members), 0), 1,
                  reduction);
}

/// The sums of the updates [b.., m, a..] at the indices `places` [b.., m], for
/// each slice of a tensor of `shape`, [b.., n, a..].
static Imported sumUpdates(Emitter &emit, const Imported &places,
                           const Imported &updates, ArrayRef<int64_t> shape) {
  int64_t row = places.getRank() - 1;
  return emit.emit(
      {places, updates}, [&](OpBuilder &b, ValueRange v) -> Operation * {
        return graph::ScatterAddOp::create(
            b, emit.getLocation(),
            RankedTensorType::get(shape, updates.getElementType()), v[0], v[1],
            /*init=*/Value(), /*axis=*/row, /*batch_dims=*/row);
      })[0];
}

/// x [b.., n, a..] with the updates [b.., m, a..] added to, or replacing, the
/// slices at the indices `places` [b.., m].
static FailureOr<Imported> addOrReplace(Emitter &emit, const Imported &x,
                                        const Imported &places,
                                        const Imported &updates,
                                        Scatter reduction) {
  Shape shape = x.getShape(), given = places.getShape();
  if (reduction == Scatter::Add)
    return emit.binary<graph::AddOp>(x,
                                     sumUpdates(emit, places, updates, shape));
  Type index = emit.getBuilder().getI64Type();
  Imported ones =
      emit.broadcast(emit.scalar(index, 1), given, !places.isConstant());
  Shape rows(ArrayRef<int64_t>(shape).take_front(given.size()));
  Imported isNew = emit.binaryOver<graph::CompareOp>(
      sumUpdates(emit, places, ones, rows), emit.scalar(index, 0),
      graph::Comparison::GT);
  rows.append(shape.size() - rows.size(), 1);
  return emit.select(emit.broadcast(emit.reshape(isNew, rows), shape, true),
                     sumUpdates(emit, places, updates, shape), x);
}

using ScatterFn =
    llvm::function_ref<FailureOr<Imported>(const Imported &, const Imported &)>;

/// Applies `scatter` to booleans and updates as the integers 0 and 1, whose
/// sums and extrema give the result.
static FailureOr<Imported> scatterFlags(Emitter &emit, const Imported &x,
                                        const Imported &updates,
                                        ScatterFn scatter) {
  Type number = emit.getBuilder().getI32Type();
  auto result = scatter(emit.convert(x, number), emit.convert(updates, number));
  if (failed(result))
    return failure();
  return emit.convert(*result, x.getElementType());
}

/// Returns true for booleans, unless they are only replaced at known indices.
static bool areCombinedFlags(const Imported &x, const Imported &indices,
                             Scatter reduction) {
  return x.getElementType().isInteger(1) &&
         (reduction != Scatter::Replace || !indices.isConstant());
}

FailureOr<Imported> scatterSlices(Emitter &emit, const Imported &x,
                                  const Imported &places,
                                  const Imported &updates, Scatter reduction) {
  if (areCombinedFlags(x, places, reduction))
    return scatterFlags(emit, x, updates,
                        [&](const Imported &a, const Imported &b) {
                          return scatterSlices(emit, a, places, b, reduction);
                        });
  if (needsMembers(reduction))
    return combineSlices(emit, x, places, updates, reduction);
  if (reduction == Scatter::Replace && places.isConstant()) {
    auto sources = findSources(emit, *places.constant, x.getShape()[0]);
    if (failed(sources))
      return failure();
    return replace(emit, x, std::move(*sources), updates, 0);
  }
  return addOrReplace(emit, x, places, updates, reduction);
}

/// Returns true if the known `indices` select whole slices of a tensor of
/// `shape` along `axis`, as in PyTorch's select_scatter.
static bool nameSlices(const Imported &indices, ArrayRef<int64_t> shape,
                       int64_t axis) {
  if (!indices.isConstant())
    return false;
  Shape whole(shape);
  whole[axis] = indices.getShape()[axis];
  return indices.getShape() == whole &&
         llvm::all_of(varyingDims(*indices.constant),
                      [&](int64_t dim) { return dim == axis; });
}

FailureOr<Imported> scatterAlong(Emitter &emit, const Imported &x,
                                 const Imported &indices,
                                 const Imported &updates, int64_t axis,
                                 Scatter reduction) {
  if (areCombinedFlags(x, indices, reduction))
    return scatterFlags(
        emit, x, updates, [&](const Imported &a, const Imported &b) {
          return scatterAlong(emit, a, indices, b, axis, reduction);
        });
  Shape shape = x.getShape(), given = indices.getShape();
  bool fits = given == updates.getShape() && given.size() == shape.size();
  for (int64_t dim = 0; fits && dim < x.getRank(); ++dim)
    fits = dim == axis || given[dim] <= shape[dim];
  if (!fits)
    return emit.fail("indices of " + toString(given) + " and updates of " +
                     toString(updates.getShape()) + " into " + toString(shape));
  if (reduction == Scatter::Replace && nameSlices(indices, shape, axis)) {
    Imported places = indices;
    for (int64_t dim = 0; dim < x.getRank(); ++dim)
      if (dim != axis)
        places = emit.slice(places, dim, 0, 1);
    places = wrapIndices(emit, emit.reshape(places, given[axis]), shape[axis]);
    auto sources = findSources(emit, *places.constant, shape[axis]);
    if (failed(sources))
      return failure();
    return replace(emit, x, std::move(*sources), updates, axis);
  }
  // Other sizes, or known indices, so that all linear indices are known.
  Shape whole(shape);
  whole[axis] = given[axis];
  if (given == whole && !indices.isConstant()) {
    SmallVector<int64_t> order = axisLast(axis, x.getRank());
    Imported places =
        emit.transpose(wrapIndices(emit, indices, shape[axis]), order);
    auto rows = (needsMembers(reduction) ? combineMembers : addOrReplace)(
        emit, emit.transpose(x, order), places, emit.transpose(updates, order),
        reduction);
    if (failed(rows))
      return failure();
    return emit.transpose(*rows, axisBack(axis, x.getRank()));
  }
  int64_t count = graph::numElements(given);
  auto result = scatterSlices(
      emit, emit.reshape(x, graph::numElements(shape)),
      emit.reshape(placesAlong(emit, indices, axis, shape), count),
      emit.reshape(updates, count), reduction);
  if (failed(result))
    return failure();
  return emit.reshape(*result, shape);
}

} // namespace polyrank::frontends
