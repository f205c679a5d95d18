// Views: the same elements in another shape or order. A write through a view
// changes its base (Tensor.h).

#include "frontends/aten/Call.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

//===-- shapes -----------------------------------------------------------===//

/// `shape`, with a single -1 replaced by the size that follows.
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

/// A view if possible, else a copy.
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

/// Removes the given dims that have size 1; without arguments, all of them.
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

/// In `sizes`, -1 keeps the size of the dim.
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

/// Transposes a matrix; vectors and numbers stay as they are.
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
    {"mH(Tensor(a) self) -> Tensor(a)", transposeLast},
    {"matrix_H(Tensor(a) self) -> Tensor(a)", transposeLast},
    {"adjoint(Tensor(a) self) -> Tensor(a)", transposeLast},
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
};

} // namespace

ArrayRef<OperatorRow> getViewRows() { return rows; }

} // namespace polyrank::frontends::aten
