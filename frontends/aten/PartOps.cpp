// Parts of tensors: elements, slices, chunks, windows.

#include "frontends/aten/Call.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

TensorRef sliceOf(Call &c, const TensorRef &x, int64_t dim, int64_t start,
                  int64_t limit, int64_t stride = 1) {
  return Tensor::viewOf(c.emit, x,
                        {View::Kind::Slice, {dim, start, limit, stride}});
}

/// The slice of x at `index` of `dim`, without that dim.
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

/// Out-of-range bounds are clamped, as in Python.
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
  if (static_cast<int64_t>(sizes.size()) > maxPieces)
    return c.fail("more than " + Twine(maxPieces) + " pieces");
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

/// Pieces of equal size; the last one is the rest.
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

/// A number of pieces, of which the first ones are one larger if necessary.
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

/// Windows of `size` elements, `step` apart, in an additional last dim. They
/// are copies: writing to one does not change self, since windows may overlap.
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

ArrayRef<OperatorRow> getPartRows() { return rows; }

} // namespace polyrank::frontends::aten
