// Import of ops that put slices into a tensor by index.

#include "frontends/emit/Indices.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// Where each place of a dim of `size` gets its slice from: the number of the
/// last index that names it, or -1. Failure where an index is outside.
FailureOr<graph::Tensor>
findSources(NodeImporter &n, const graph::Tensor &places, int64_t size) {
  if (size > maxFolded)
    return n.fail("known indices into a dim of " + Twine(size) + "; at most " +
                  Twine(maxFolded));
  graph::Tensor sources(n.emit.getBuilder().getI64Type(), {size});
  llvm::fill(sources.integers, -1);
  for (auto [i, place] : llvm::enumerate(places.integers)) {
    if (place < 0 || place >= size)
      return n.fail("its indices lead to element " + Twine(place) +
                    " of a dim of " + Twine(size));
    sources.integers[place] = static_cast<int64_t>(i);
  }
  return sources;
}

/// `x` where `sources` is -1, else the slice of `updates` with that number
/// along dim `axis`. `sources` lies along dims of x from `axis` on.
Imported replace(NodeImporter &n, const Imported &x, graph::Tensor sources,
                 const Imported &updates, int64_t axis) {
  Imported isNew = n.emit.binaryOver<graph::CompareOp>(
      sources, n.emit.scalar(sources.elementType, 0), graph::Comparison::GE);
  bool all = llvm::all_of(sources.integers, [](int64_t i) { return i >= 0; });
  Shape over = sources.shape;
  Imported gathered =
      n.emit.binary<graph::GatherOp>(updates, std::move(sources), axis);
  if (all)
    return gathered;
  over.append(x.getRank() - axis - over.size(), 1);
  bool known = x.isConstant() && gathered.isConstant();
  return n.emit.select(
      n.emit.broadcast(n.emit.reshape(isNew, over), x.getShape(), !known),
      gathered, x);
}

/// For each slice of a dim of `size` the numbers of the slices that belong to
/// it: itself, `count` + its own number, then the updates that known `places`
/// name for it, and `count` + `size` in their stead where others have more.
FailureOr<graph::Tensor> groupByPlace(NodeImporter &n,
                                      const graph::Tensor &places,
                                      int64_t size) {
  int64_t count = places.size(), most = 0;
  std::vector<std::vector<int64_t>> groups(size);
  for (auto [i, place] : llvm::enumerate(places.integers)) {
    if (place < 0 || place >= size)
      return n.fail("its indices lead to element " + Twine(place) +
                    " of a dim of " + Twine(size));
    groups[place].push_back(static_cast<int64_t>(i));
    most = std::max<int64_t>(most, groups[place].size());
  }
  graph::Tensor members(n.emit.getBuilder().getI64Type(), {size, 1 + most});
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
FailureOr<Imported> scatterExtremum(NodeImporter &n, const Imported &x,
                                    const Imported &places,
                                    const Imported &updates, bool isMax) {
  Shape shape = x.getShape();
  int64_t size = shape[0], count = places.getShape()[0];
  double infinity = std::numeric_limits<double>::infinity();
  Imported nothing = n.emit.scalar(x.getElementType(),
                                   isMax ? -infinity : infinity);
  auto kind =
      isMax ? sharding::ReductionKind::Max : sharding::ReductionKind::Min;
  if (places.isConstant() && size <= maxFolded) {
    auto members = groupByPlace(n, *places.constant, size);
    if (failed(members))
      return failure();
    Shape one(shape);
    one[0] = 1;
    Imported all = n.emit.concat(
        {updates, x,
         n.emit.broadcast(nothing, one, !x.isConstant())}, 0);
    return n.emit.reduce(
        kind, n.emit.binary<graph::GatherOp>(all, std::move(*members), 0), {1});
  }
  // Each slice looks at all updates.
  constexpr int64_t mostCompared = int64_t(1) << 28;
  Shape compared = {size, count};
  compared.append(shape.begin() + 1, shape.end());
  if (countElements(compared) > mostCompared)
    return n.fail("the " + Twine(isMax ? "largest" : "smallest") + " of " +
                  Twine(count) + " updates for each of " + Twine(size) +
                  " slices by indices that are not known when the model is "
                  "compiled, which compares each with each; make the indices "
                  "constants of the model, or scatter fewer at once");
  Imported isMember = n.emit.binary<graph::CompareOp>(
      n.emit.broadcast(n.emit.reshape(places, {1, count}), {size, count}, true),
      n.emit.materialize(
          n.emit.iota({size, count}, 0, places.getElementType())),
      graph::Comparison::EQ);
  Shape over = {size, count}, row = {1};
  over.append(shape.size() - 1, 1);
  row.append(updates.getShape());
  Imported candidates = n.emit.select(
      n.emit.broadcast(n.emit.reshape(isMember, over), compared, true),
      n.emit.broadcast(n.emit.reshape(updates, row), compared, true),
      n.emit.broadcast(nothing, compared, true));
  Shape self(shape);
  self.insert(self.begin() + 1, 1);
  return n.emit.reduce(
      kind, n.emit.concat({n.emit.reshape(x, self), candidates}, 1), {1});
}

/// The slices of `x` along its first dim that `places` name become those of
/// `updates`, or get them added. An index named twice and not added has no
/// meaning in ONNX; known ones take the last.
FailureOr<Imported> scatter(NodeImporter &n, const Imported &x,
                            const Imported &places, const Imported &updates) {
  StringRef reduction = n.getString("reduction", "none");
  if (reduction == "max" || reduction == "min")
    return scatterExtremum(n, x, places, updates, reduction == "max");
  if (reduction != "none" && reduction != "add")
    return n.fail("the reduction `" + reduction +
                  "`; for a product of positive numbers add their logarithms");
  int64_t size = x.getShape()[0];
  if (reduction == "none" && places.isConstant()) {
    auto sources = findSources(n, *places.constant, size);
    if (failed(sources))
      return failure();
    return replace(n, x, std::move(*sources), updates, 0);
  }
  auto sumOf = [&](const Imported &slices, ArrayRef<int64_t> shape) {
    return n.emit.emit(
        {places, slices}, [&](OpBuilder &b, ValueRange v) -> Operation * {
          return graph::ScatterAddOp::create(
              b, n.emit.getLocation(),
              RankedTensorType::get(shape, slices.getElementType()), v[0], v[1],
              /*init=*/Value(), /*axis=*/0, /*batch_dims=*/0);
        })[0];
  };
  Shape shape = x.getShape();
  if (reduction == "add" && !x.getElementType().isInteger(1))
    return n.emit.binary<graph::AddOp>(x, sumOf(updates, shape));
  if (x.getElementType().isInteger(1))
    return n.fail("booleans that are added, or put in by indices that are not "
                  "known when the model is compiled; convert them to integers "
                  "(x.long())");
  Type index = n.emit.getBuilder().getI64Type();
  Imported ones = n.emit.broadcast(n.emit.scalar(index, 1), places.getShape(),
                                   !places.isConstant());
  Imported counts = sumOf(ones, size);
  Imported isNew = n.emit.binaryOver<graph::CompareOp>(
      counts, n.emit.scalar(index, 0), graph::Comparison::GT);
  Shape over(shape.size(), 1);
  over[0] = size;
  return n.emit.select(
      n.emit.broadcast(n.emit.reshape(isNew, over), shape, true),
      sumOf(updates, shape), x);
}

LogicalResult needIndices(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  const Imported &x = n.operand(0), &indices = n.operand(1),
                 &updates = n.operand(2);
  if (!isa<IntegerType>(indices.getElementType()))
    return n.fail("its indices are not integers");
  if (toComputedType(x.getElementType()) !=
      toComputedType(updates.getElementType()))
    return n.fail("its updates have another type than what they go into");
  if (x.getRank() < 1 || indices.getRank() < 1)
    return n.fail("indices of " + toString(indices.getShape()) + " into " +
                  toString(x.getShape()));
  return success();
}

/// The last dim of the indices addresses the first dims of x, which are
/// therefore merged into one.
LogicalResult scatterND(NodeImporter &n) {
  if (failed(needIndices(n)))
    return failure();
  const Imported &x = n.operand(0), &indices = n.operand(1),
                 &updates = n.operand(2);
  Shape shape = x.getShape(), picked = indices.getShape();
  int64_t depth = picked.pop_back_val();
  if (depth < 1 || depth > x.getRank())
    return n.fail("indices of " + toString(indices.getShape()) + " into " +
                  toString(shape));
  ArrayRef<int64_t> indexed = ArrayRef<int64_t>(shape).take_front(depth),
                    rest = ArrayRef<int64_t>(shape).drop_front(depth);
  Shape expected(picked);
  expected.append(rest.begin(), rest.end());
  if (updates.getShape() != expected)
    return n.fail("its updates are " + toString(updates.getShape()) +
                  " where the indices ask for " + toString(expected));
  auto merged = [&](int64_t count) {
    Shape result = {count};
    result.append(rest.begin(), rest.end());
    return result;
  };
  int64_t count = graph::numElements(picked);
  auto result =
      scatter(n, n.emit.reshape(x, merged(graph::numElements(indexed))),
              n.emit.reshape(placesOf(n.emit, indices, indexed), count),
              n.emit.reshape(updates, merged(count)));
  if (failed(result))
    return failure();
  n.result(0, n.emit.reshape(*result, shape));
  return success();
}

/// Whether the known `indices` name whole slices of a tensor of `shape` along
/// `axis`, as PyTorch's select_scatter writes them.
bool nameSlices(const Imported &indices, ArrayRef<int64_t> shape,
                int64_t axis) {
  if (!indices.isConstant())
    return false;
  Shape whole(shape);
  whole[axis] = indices.getShape()[axis];
  return indices.getShape() == whole &&
         llvm::all_of(varyingDims(*indices.constant),
                      [&](int64_t dim) { return dim == axis; });
}

/// result[.., indices[i, j, ..], ..] = updates[i, j, ..] with the index at
/// `axis`.
LogicalResult scatterElements(NodeImporter &n) {
  if (failed(needIndices(n)))
    return failure();
  const Imported &x = n.operand(0), &indices = n.operand(1),
                 &updates = n.operand(2);
  auto axis = n.axis(n.getInt("axis", 0), x.getRank());
  if (failed(axis))
    return failure();
  Shape shape = x.getShape(), given = indices.getShape();
  bool fits = given == updates.getShape() && given.size() == shape.size();
  for (int64_t dim = 0; fits && dim < x.getRank(); ++dim)
    fits = dim == *axis || given[dim] <= shape[dim];
  if (!fits)
    return n.fail("indices of " + toString(given) + " and updates of " +
                  toString(updates.getShape()) + " into " + toString(shape));
  if (n.getString("reduction", "none") == "none" &&
      nameSlices(indices, shape, *axis)) {
    Imported places = indices;
    for (int64_t dim = 0; dim < x.getRank(); ++dim)
      if (dim != *axis)
        places = n.emit.slice(places, dim, 0, 1);
    places =
        wrapIndices(n.emit, n.emit.reshape(places, given[*axis]), shape[*axis]);
    auto sources = findSources(n, *places.constant, shape[*axis]);
    if (failed(sources))
      return failure();
    n.result(0, replace(n, x, std::move(*sources), updates, *axis));
    return success();
  }
  int64_t count = graph::numElements(given);
  auto result =
      scatter(n, n.emit.reshape(x, graph::numElements(shape)),
              n.emit.reshape(placesAlong(n.emit, indices, *axis, shape), count),
              n.emit.reshape(updates, count));
  if (failed(result))
    return failure();
  n.result(0, n.emit.reshape(*result, shape));
  return success();
}

const OpRow rows[] = {
    {"", "ScatterND", 11, scatterND},
    {"", "ScatterElements", 11, scatterElements},
    {"", "Scatter", 9, scatterElements}, // its name before version 11
};

} // namespace

ArrayRef<OpRow> getScatterRows() { return rows; }

} // namespace polyrank::frontends::onnx
