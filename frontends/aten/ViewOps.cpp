// Views: the same elements under another shape, in another order, or some of
// them. What is written through a view is seen in its base (Tensor.h).

#include "frontends/aten/Call.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

//===-- shapes -----------------------------------------------------------===//

/// `shape` with the one dim that is -1 filled in.
FailureOr<Shape> completed(Call &c, ArrayRef<int64_t> given, int64_t count) {
  Shape shape(given);
  int64_t known = 1, open = -1;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size == -1 && open < 0)
      open = static_cast<int64_t>(i);
    else if (size < 0)
      return c.fail("shape " + toString(given));
    else
      known = countElements({known, size});
  }
  if (open >= 0 && known > 0)
    shape[open] = count / known;
  if (countElements(shape) != count)
    return c.fail("shape " + toString(given) + " of " + Twine(count) +
                  " elements");
  return shape;
}

LogicalResult viewAs(Call &c, ArrayRef<int64_t> given) {
  const TensorRef &self = c.tensor("self");
  auto shape = completed(c, given, countElements(self->getShape()));
  if (failed(shape))
    return failure();
  return c.view(self, View::Kind::Reshape, *shape);
}

/// A view where that can be, else a copy.
LogicalResult reshapeTo(Call &c, ArrayRef<int64_t> given) {
  const TensorRef &self = c.tensor("self");
  auto shape = completed(c, given, countElements(self->getShape()));
  if (failed(shape))
    return failure();
  if (stridesOfReshape(*self, *shape))
    return c.view(self, View::Kind::Reshape, *shape);
  return c.give(c.emit.reshape(c.read("self"), *shape), self->getType());
}

LogicalResult view(Call &c) { return viewAs(c, c.integers("size")); }
LogicalResult viewLike(Call &c) {
  return viewAs(c, c.tensor("other")->getShape());
}
LogicalResult reshape(Call &c) {
  return reshapeTo(c, c.integers(c.has("size") ? "size" : "shape"));
}
LogicalResult reshapeLike(Call &c) {
  return reshapeTo(c, c.tensor("other")->getShape());
}

LogicalResult flatten(Call &c) {
  Shape shape = c.tensor("self")->getShape();
  auto rank = static_cast<int64_t>(shape.size());
  auto start = c.dim(c.has("start_dim") ? c.integer("start_dim") : 0, rank),
       end = c.dim(c.has("end_dim") ? c.integer("end_dim") : -1, rank);
  if (failed(start) || failed(end))
    return failure();
  if (*start > *end)
    return c.fail("dims " + Twine(*start) + " to " + Twine(*end));
  if (rank == 0)
    return reshapeTo(c, {1});
  int64_t merged = 1;
  for (int64_t dim = *start; dim <= *end; ++dim)
    merged *= shape[dim];
  shape.erase(shape.begin() + *start, shape.begin() + *end + 1);
  shape.insert(shape.begin() + *start, merged);
  return reshapeTo(c, shape);
}

LogicalResult unflatten(Call &c) {
  Shape shape = c.tensor("self")->getShape();
  auto dim = c.dim(c.integer("dim"), shape.size());
  if (failed(dim))
    return failure();
  auto sizes = completed(c, c.integers("sizes"), shape[*dim]);
  if (failed(sizes))
    return failure();
  shape.erase(shape.begin() + *dim);
  shape.insert(shape.begin() + *dim, sizes->begin(), sizes->end());
  return viewAs(c, shape);
}

/// Without the given dims that are 1; with all of them where none are given.
LogicalResult squeeze(Call &c) {
  Shape shape = c.tensor("self")->getShape(), kept;
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(shape.size()));
  if (c.has("dim")) {
    auto given = c.dims("dim", shape.size());
    if (failed(given))
      return failure();
    if (!c["dim"].isList() || !c.integers("dim").empty())
      dims = *given;
    else
      dims.clear();
  }
  for (auto [i, size] : llvm::enumerate(shape))
    if (size != 1 || !llvm::is_contained(dims, static_cast<int64_t>(i)))
      kept.push_back(size);
  return viewAs(c, kept);
}

LogicalResult unsqueeze(Call &c) {
  Shape shape = c.tensor("self")->getShape();
  auto dim = c.dim(c.integer("dim"), shape.size() + 1);
  if (failed(dim))
    return failure();
  shape.insert(shape.begin() + *dim, 1);
  return viewAs(c, shape);
}

/// In `sizes` -1 stands for the dim as it is.
LogicalResult expandTo(Call &c, ArrayRef<int64_t> sizes) {
  const TensorRef &self = c.tensor("self");
  Shape from = self->getShape(), shape(sizes);
  if (shape.size() < from.size())
    return c.fail(toString(from) + " to " + toString(sizes));
  size_t lead = shape.size() - from.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == -1 && i >= lead)
      shape[i] = from[i - lead];
  auto common = broadcastShapes(from, shape);
  if (failed(common) || *common != shape || failed(c.emit.fits(shape)))
    return c.fail(toString(from) + " to " + toString(sizes));
  return c.view(self,
                countElements(from) == countElements(shape)
                    ? View::Kind::Reshape
                    : View::Kind::Broadcast,
                shape);
}

LogicalResult expand(Call &c) { return expandTo(c, c.integers("size")); }
LogicalResult expandLike(Call &c) {
  return expandTo(c, c.tensor("other")->getShape());
}

//===-- orders -----------------------------------------------------------===//

LogicalResult permuteTo(Call &c, ArrayRef<int64_t> dims) {
  return c.view(c.tensor("self"), View::Kind::Transpose, dims);
}

LogicalResult permute(Call &c) {
  int64_t rank = c.tensor("self")->getRank();
  Shape order;
  for (int64_t each : c.integers("dims")) {
    auto dim = c.dim(each, rank);
    if (failed(dim))
      return failure();
    if (llvm::is_contained(order, *dim))
      return c.fail("dims " + toString(c.integers("dims")));
    order.push_back(*dim);
  }
  if (static_cast<int64_t>(order.size()) != rank)
    return c.fail("dims " + toString(c.integers("dims")) + " of a tensor of " +
                  Twine(rank));
  return permuteTo(c, order);
}

LogicalResult swap(Call &c, int64_t first, int64_t second) {
  int64_t rank = c.tensor("self")->getRank();
  auto a = c.dim(first, rank), b = c.dim(second, rank);
  if (failed(a) || failed(b))
    return failure();
  Shape order = llvm::to_vector(llvm::seq<int64_t>(rank));
  if (rank > 0)
    std::swap(order[*a], order[*b]);
  return permuteTo(c, order);
}

LogicalResult transpose(Call &c) {
  return swap(c, c.integer("dim0"), c.integer("dim1"));
}
LogicalResult swapAxes(Call &c) {
  return swap(c, c.integer("axis0"), c.integer("axis1"));
}

/// Of a matrix; vectors and numbers stay as they are.
LogicalResult transposeMatrix(Call &c) {
  int64_t rank = c.tensor("self")->getRank();
  if (rank > 2)
    return c.fail("the transpose of " + Twine(rank) + " dims");
  return rank == 2 ? swap(c, 0, 1)
                   : permuteTo(c, llvm::to_vector(llvm::seq<int64_t>(rank)));
}

LogicalResult transposeAll(Call &c) {
  int64_t rank = c.tensor("self")->getRank();
  Shape order = llvm::to_vector(llvm::seq<int64_t>(rank));
  std::reverse(order.begin(), order.end());
  return permuteTo(c, order);
}

LogicalResult transposeLast(Call &c) { return swap(c, -2, -1); }

LogicalResult moveDims(Call &c) {
  int64_t rank = c.tensor("self")->getRank();
  auto listOf = [&](StringRef name) {
    return c[name].isInt() ? SmallVector<int64_t>{c.integer(name)}
                           : c.integers(name);
  };
  auto from = listOf("source"), to = listOf("destination");
  Shape order(rank, -1);
  SmallVector<int64_t> moved;
  if (from.size() != to.size())
    return c.fail("dims " + toString(from) + " to " + toString(to));
  for (auto [a, b] : llvm::zip_equal(from, to)) {
    auto source = c.dim(a, rank), destination = c.dim(b, rank);
    if (failed(source) || failed(destination))
      return failure();
    if (order[*destination] >= 0 || llvm::is_contained(moved, *source))
      return c.fail("dims " + toString(from) + " to " + toString(to));
    order[*destination] = *source;
    moved.push_back(*source);
  }
  int64_t next = 0;
  for (int64_t &dim : order) {
    if (dim >= 0)
      continue;
    while (llvm::is_contained(moved, next))
      ++next;
    dim = next++;
  }
  return permuteTo(c, order);
}

//===-- parts ------------------------------------------------------------===//

TensorRef sliceOf(Call &c, const TensorRef &x, int64_t dim, int64_t start,
                  int64_t limit, int64_t stride = 1) {
  return Tensor::viewOf(c.emit, x,
                        {View::Kind::Slice, {dim, start, limit, stride}});
}

/// x without `dim`, at `index` of it.
TensorRef elementOf(Call &c, const TensorRef &x, int64_t dim, int64_t index) {
  Shape shape = x->getShape();
  shape.erase(shape.begin() + dim);
  return Tensor::viewOf(c.emit, sliceOf(c, x, dim, index, index + 1),
                        {View::Kind::Reshape, shape});
}

LogicalResult select(Call &c) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim))
    return failure();
  if (self->getRank() == 0)
    return c.fail("an element of a tensor without dims");
  int64_t size = self->getShape()[*dim], index = c.integer("index");
  if (index < -size || index >= size)
    return c.fail("index " + Twine(index) + " into a dim of " + Twine(size));
  return c.give(
      Value(elementOf(c, self, *dim, index < 0 ? index + size : index)));
}

/// Python's rule for bounds that are out of range.
LogicalResult slice(Call &c) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim))
    return failure();
  if (self->getRank() == 0)
    return c.fail("a slice of a tensor without dims");
  int64_t size = self->getShape()[*dim], step = c.integer("step");
  if (step < 1)
    return c.fail("its step is " + Twine(step));
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  int64_t start = clamp(c.integer("start", 0)),
          end = std::max(start, clamp(c.integer("end", size)));
  return c.give(
      Value(sliceOf(c, self, *dim, start, end, std::min(step, size + 1))));
}

LogicalResult narrow(Call &c) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim))
    return failure();
  int64_t size = self->getRank() ? self->getShape()[*dim] : 0,
          start = c.integer("start"), length = c.integer("length");
  start += start < 0 ? size : 0;
  if (start < 0 || length < 0 || start > size - length)
    return c.fail("elements " + Twine(start) + " to " + Twine(start + length) +
                  " of a dim of " + Twine(size));
  return c.give(Value(sliceOf(c, self, *dim, start, start + length)));
}

constexpr int64_t maxPieces = 1 << 16;

LogicalResult splitInto(Call &c, int64_t dim, ArrayRef<int64_t> sizes) {
  const TensorRef &self = c.tensor("self");
  int64_t size = self->getShape()[dim], start = 0;
  List pieces;
  for (int64_t piece : sizes) {
    if (piece < 0 || piece > size - start)
      return c.fail("pieces of " + toString(sizes) + " of a dim of " +
                    Twine(size));
    pieces.push_back(Value(sliceOf(c, self, dim, start, start + piece)));
    start += piece;
  }
  if (start != size)
    return c.fail("pieces of " + toString(sizes) + " of a dim of " +
                  Twine(size));
  return c.give(Value::list(std::move(pieces)));
}

/// Pieces of one size; the last one is the rest.
LogicalResult splitEvenly(Call &c, int64_t dim, int64_t piece) {
  int64_t size = c.tensor("self")->getShape()[dim];
  if (piece < 1 || size / piece > maxPieces)
    return c.fail("pieces of " + Twine(piece) + " of a dim of " + Twine(size));
  SmallVector<int64_t> sizes;
  for (int64_t start = 0; start < size; start += piece)
    sizes.push_back(std::min(piece, size - start));
  if (sizes.empty())
    sizes.push_back(0);
  return splitInto(c, dim, sizes);
}

FailureOr<int64_t> dimToSplit(Call &c) {
  if (c.tensor("self")->getRank() == 0)
    return c.fail("pieces of a tensor without dims");
  return c.dim(c.integer("dim"), c.tensor("self")->getRank());
}

LogicalResult split(Call &c) {
  auto dim = dimToSplit(c);
  return failed(dim) ? failure()
                     : splitEvenly(c, *dim, c.integer("split_size"));
}

LogicalResult splitWithSizes(Call &c) {
  auto dim = dimToSplit(c);
  if (failed(dim))
    return failure();
  auto sizes = c.integers(c.has("split_sizes") ? "split_sizes" : "split_size");
  return splitInto(c, *dim, sizes);
}

LogicalResult chunk(Call &c) {
  auto dim = dimToSplit(c);
  if (failed(dim))
    return failure();
  int64_t chunks = c.integer("chunks"),
          size = c.tensor("self")->getShape()[*dim];
  if (chunks < 1)
    return c.fail(Twine(chunks) + " chunks");
  return splitEvenly(c, *dim,
                     std::max<int64_t>(1, llvm::divideCeil(size, chunks)));
}

/// So many pieces, the first of which are one larger where they must be.
LogicalResult tensorSplit(Call &c) {
  auto dim = dimToSplit(c);
  if (failed(dim))
    return failure();
  int64_t size = c.tensor("self")->getShape()[*dim];
  SmallVector<int64_t> sizes;
  if (c.has("sections")) {
    int64_t sections = c.integer("sections");
    if (sections < 1 || sections > maxPieces)
      return c.fail(Twine(sections) + " sections");
    for (int64_t i = 0; i < sections; ++i)
      sizes.push_back(size / sections + (i < size % sections));
  } else {
    int64_t start = 0;
    for (int64_t end : c.integers("indices")) {
      end = std::clamp<int64_t>(end < 0 ? end + size : end, 0, size);
      sizes.push_back(std::max<int64_t>(0, end - start));
      start = std::max(start, end);
    }
    sizes.push_back(size - start);
  }
  return splitInto(c, *dim, sizes);
}

LogicalResult unbind(Call &c) {
  auto dim = dimToSplit(c);
  if (failed(dim))
    return failure();
  const TensorRef &self = c.tensor("self");
  int64_t size = self->getShape()[*dim];
  if (size > maxPieces)
    return c.fail("more than " + Twine(maxPieces) + " pieces");
  List pieces;
  for (int64_t i = 0; i < size; ++i)
    pieces.push_back(Value(elementOf(c, self, *dim, i)));
  return c.give(Value::list(std::move(pieces)));
}

/// Windows of `size` elements, `step` apart, in a further dim at the end. What
/// is written into one is not seen in self, where windows may overlap.
LogicalResult unfold(Call &c) {
  Imported x = c.read("self");
  auto dim = c.dim(c.integer("dimension"), x.getRank());
  if (failed(dim))
    return failure();
  int64_t size = c.integer("size"), step = c.integer("step"),
          length = x.getRank() ? x.getShape()[*dim] : 0;
  if (size < 1 || size > length || step < 1)
    return c.fail("windows of " + Twine(size) + " elements, " + Twine(step) +
                  " apart, of a dim of " + Twine(length));
  return c.give(c.emit.unary<graph::UnfoldOp>(x, *dim, size, step),
                c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"view(Tensor(a) self, SymInt[] size) -> Tensor(a)", view},
    {"view_as(Tensor(a) self, Tensor other) -> Tensor(a)", viewLike},
    {"reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", reshape},
    {"_unsafe_view(Tensor self, SymInt[] size) -> Tensor", reshape},
    {"_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> "
     "Tensor(a)",
     reshape},
    {"reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", reshapeLike},
    {"flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) "
     "-> Tensor(a)",
     flatten},
    {"ravel(Tensor(a) self) -> Tensor(a)", flatten},
    {"unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
     unflatten},
    {"squeeze(Tensor(a) self) -> Tensor(a)", squeeze},
    {"squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", squeeze},
    {"squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", squeeze},
    {"unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", unsqueeze},
    {"expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> "
     "Tensor(a)",
     expand},
    {"broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", expand},
    {"expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", expandLike},
    {"permute(Tensor(a) self, int[] dims) -> Tensor(a)", permute},
    {"transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     transpose},
    {"swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose},
    {"swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", swapAxes},
    {"t(Tensor(a) self) -> Tensor(a)", transposeMatrix},
    {"numpy_T(Tensor(a) self) -> Tensor(a)", transposeAll},
    {"mT(Tensor(a) self) -> Tensor(a)", transposeLast},
    {"movedim.int(Tensor(a) self, int source, int destination) -> "
     "Tensor(a)",
     moveDims},
    {"movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> "
     "Tensor(a)",
     moveDims},
    {"moveaxis.int(Tensor(a) self, int source, int destination) -> "
     "Tensor(a)",
     moveDims},
    {"moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) "
     "-> Tensor(a)",
     moveDims},
    {"select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", select},
    {"slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? "
     "end=None, SymInt step=1) -> Tensor(a)",
     slice},
    {"narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> "
     "Tensor(a)",
     narrow},
    {"split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> "
     "Tensor(a)[]",
     split},
    {"unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> "
     "Tensor[]",
     split},
    {"split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int "
     "dim=0) -> Tensor(a)[]",
     splitWithSizes},
    {"split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> "
     "Tensor(a)[]",
     splitWithSizes},
    {"unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int "
     "dim=0) -> Tensor[]",
     splitWithSizes},
    {"chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", chunk},
    {"unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", chunk},
    {"tensor_split.sections(Tensor(a -> *) self, SymInt sections, int "
     "dim=0) -> Tensor(a)[]",
     tensorSplit},
    {"tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int "
     "dim=0) -> Tensor(a)[]",
     tensorSplit},
    {"unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind},
    {"unfold(Tensor(a) self, int dimension, int size, int step) -> "
     "Tensor(a)",
     unfold},
};

} // namespace

ArrayRef<OperatorRow> getViewRows() { return rows; }

} // namespace polyrank::frontends::aten
