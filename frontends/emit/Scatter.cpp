// Slices and elements that are put into a tensor by index.

#include "frontends/emit/Scatter.h"

#include <limits>

#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends {

/// Where each place of a dim of `size` gets its slice from: the number of the
/// last index that names it, or -1. Failure where an index is outside.
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
/// along dim `axis`. `sources` lies along dims of x from `axis` on.
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

/// For each slice of a dim of `size` the numbers of the slices that belong to
/// it: itself, `count` + its own number, then the updates that known `places`
/// name for it, and `count` + `size` in their stead where others have more.
static FailureOr<graph::Tensor>
groupByPlace(Emitter &emit, const graph::Tensor &places, int64_t size) {
  int64_t count = places.size(), most = 0;
  std::vector<std::vector<int64_t>> groups(size);
  for (auto [i, place] : llvm::enumerate(places.integers)) {
    if (place < 0 || place >= size)
      return emit.fail("its indices lead to element " + Twine(place) +
                       " of a dim of " + Twine(size));
    groups[place].push_back(static_cast<int64_t>(i));
    most = std::max<int64_t>(most, groups[place].size());
  }
  graph::Tensor members(emit.getBuilder().getI64Type(), {size, 1 + most});
  llvm::fill(members.integers, count + size);
  for (int64_t i = 0; i < size; ++i) {
    auto row = members.integers.begin() + i * (1 + most);
    *row = count + i;
    llvm::copy(groups[i], row + 1);
  }
  return members;
}

/// The largest or smallest of each slice of `x` and of the updates for it.
/// Those that are equal share the gradient, as in PyTorch.
static FailureOr<Imported> scatterExtremum(Emitter &emit, const Imported &x,
                                           const Imported &places,
                                           const Imported &updates,
                                           bool isMax) {
  Shape shape = x.getShape();
  int64_t size = shape[0], count = places.getShape()[0];
  double infinity = std::numeric_limits<double>::infinity();
  Imported nothing =
      emit.scalar(x.getElementType(), isMax ? -infinity : infinity);
  auto kind =
      isMax ? sharding::ReductionKind::Max : sharding::ReductionKind::Min;
  if (places.isConstant() && size <= maxFolded) {
    auto members = groupByPlace(emit, *places.constant, size);
    if (failed(members))
      return failure();
    Shape one(shape);
    one[0] = 1;
    Imported all = emit.concat(
        {updates, x, emit.broadcast(nothing, one, !x.isConstant())}, 0);
    return emit.reduce(
        kind, emit.binary<graph::GatherOp>(all, std::move(*members), 0), {1});
  }
  // Each slice looks at all updates.
  constexpr int64_t mostCompared = int64_t(1) << 28;
  Shape compared = {size, count};
  compared.append(shape.begin() + 1, shape.end());
  if (countElements(compared) > mostCompared)
    return emit.fail(
        "the " + Twine(isMax ? "largest" : "smallest") + " of " + Twine(count) +
        " updates for each of " + Twine(size) +
        " slices by indices that are not known when the model is "
        "compiled, which compares each with each; make the indices "
        "constants of the model, or scatter fewer at once");
  Imported isMember = emit.binary<graph::CompareOp>(
      emit.broadcast(emit.reshape(places, {1, count}), {size, count}, true),
      emit.materialize(emit.iota({size, count}, 0, places.getElementType())),
      graph::Comparison::EQ);
  Shape over = {size, count}, row = {1};
  over.append(shape.size() - 1, 1);
  row.append(updates.getShape());
  Imported candidates =
      emit.select(emit.broadcast(emit.reshape(isMember, over), compared, true),
                  emit.broadcast(emit.reshape(updates, row), compared, true),
                  emit.broadcast(nothing, compared, true));
  Shape self(shape);
  self.insert(self.begin() + 1, 1);
  return emit.reduce(kind, emit.concat({emit.reshape(x, self), candidates}, 1),
                     {1});
}

FailureOr<Imported> scatterSlices(Emitter &emit, const Imported &x,
                                  const Imported &places,
                                  const Imported &updates, Scatter reduction) {
  if (reduction == Scatter::Max || reduction == Scatter::Min)
    return scatterExtremum(emit, x, places, updates, reduction == Scatter::Max);
  int64_t size = x.getShape()[0];
  if (reduction == Scatter::Replace && places.isConstant()) {
    auto sources = findSources(emit, *places.constant, size);
    if (failed(sources))
      return failure();
    return replace(emit, x, std::move(*sources), updates, 0);
  }
  auto sumOf = [&](const Imported &slices, ArrayRef<int64_t> shape) {
    return emit.emit(
        {places, slices}, [&](OpBuilder &b, ValueRange v) -> Operation * {
          return graph::ScatterAddOp::create(
              b, emit.getLocation(),
              RankedTensorType::get(shape, slices.getElementType()), v[0], v[1],
              /*init=*/Value(), /*axis=*/0, /*batch_dims=*/0);
        })[0];
  };
  Shape shape = x.getShape();
  if (reduction == Scatter::Add && !x.getElementType().isInteger(1))
    return emit.binary<graph::AddOp>(x, sumOf(updates, shape));
  if (x.getElementType().isInteger(1))
    return emit.fail(
        "booleans that are added, or put in by indices that are not "
        "known when the model is compiled; convert them to integers "
        "(x.long())");
  Type index = emit.getBuilder().getI64Type();
  Imported ones = emit.broadcast(emit.scalar(index, 1), places.getShape(),
                                 !places.isConstant());
  Imported counts = sumOf(ones, size);
  Imported isNew = emit.binaryOver<graph::CompareOp>(
      counts, emit.scalar(index, 0), graph::Comparison::GT);
  Shape over(shape.size(), 1);
  over[0] = size;
  return emit.select(emit.broadcast(emit.reshape(isNew, over), shape, true),
                     sumOf(updates, shape), x);
}

/// Whether the known `indices` name whole slices of a tensor of `shape` along
/// `axis`, as PyTorch's select_scatter writes them.
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
