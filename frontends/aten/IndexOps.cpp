// Selection of elements by index, and operators that return indices.

#include "frontends/aten/Call.h"
#include "frontends/aten/Indexing.h"
#include "frontends/emit/Indices.h"
#include "frontends/emit/Masks.h"
#include "frontends/emit/Order.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

/// x[.., indices, ..] with the indices at `dim`, of any shape.
FailureOr<Imported> pick(Call &c, const Imported &x, Imported indices,
                         int64_t dim) {
  int64_t size = x.getShape()[dim];
  indices = wrapIndices(c.emit, indices, size);
  if (indices.isConstant())
    for (int64_t index : indices.constant->integers)
      if (index < 0 || index >= size)
        return c.fail("index " + Twine(index) + " into a dim of " +
                      Twine(size));
  if (auto start = startOfRun(indices)) {
    Imported part =
        c.emit.slice(x, dim, *start, *start + indices.constant->size());
    Shape result = x.getShape(), inner = indices.getShape();
    result.erase(result.begin() + dim);
    result.insert(result.begin() + dim, inner.begin(), inner.end());
    return c.emit.reshape(part, result);
  }
  return c.emit.binary<graph::GatherOp>(x, indices, dim);
}

/// The rows of `weight` at the indices. Indices from an input are limited to
/// the number of rows; the row `padding_idx` gets no gradient.
LogicalResult embedding(Call &c) {
  if (failed(c.needIntegers("indices")))
    return failure();
  Imported weight = c.read("weight"), indices = c.read("indices");
  if (weight.getRank() != 2)
    return c.fail("rows of " + toString(weight.getShape()));
  if (c.flag("scale_grad_by_freq") && c.options.training)
    return c.fail("scale_grad_by_freq=True, whose gradient is not computed; "
                  "leave the option out, or --freeze the table");
  int64_t padding = c.integer("padding_idx");
  if (indices.isConstant() && padding < 0)
    return c.give(pick(c, weight, indices, 0), c.typeOf("weight"));
  c.emit.limitIndices(indices, weight.getShape()[0]);
  Imported rows = c.emit.binary<graph::GatherOp>(weight, indices, int64_t(0));
  if (padding >= 0 && rows.value)
    if (auto op = rows.value.getDefiningOp<graph::GatherOp>())
      op.setPaddingIndex(padding);
  return c.give(rows, c.typeOf("weight"));
}

LogicalResult indexSelect(Call &c) {
  if (failed(c.needIntegers("index")))
    return failure();
  Imported x = c.read("self"), index = c.read("index");
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  if (x.getRank() == 0)
    return c.give(x, c.typeOf("self"));
  if (index.getRank() > 1)
    return c.fail("an index of " + toString(index.getShape()));
  if (index.getRank() == 0)
    index = c.emit.reshape(index, {1});
  return c.give(pick(c, x, index, *dim), c.typeOf("self"));
}

LogicalResult gather(Call &c) {
  if (failed(c.needIntegers("index")))
    return failure();
  Imported x = c.read("self"), index = c.read("index");
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  if (x.getRank() == 0)
    return c.give(x, c.typeOf("self"));
  return c.give(gatherAlong(c.emit, x, index, *dim), c.typeOf("self"));
}

/// Like gather, but the other dims broadcast.
LogicalResult takeAlong(Call &c) {
  if (failed(c.needIntegers("indices")))
    return failure();
  Imported x = c.read("self"), index = c.read("indices");
  if (!c.has("dim"))
    return c.give(pick(c, c.emit.reshape(x, {countElements(x.getShape())}),
                       c.emit.reshape(index, {countElements(index.getShape())}),
                       0),
                  c.typeOf("self"));
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  if (x.getRank() != index.getRank() || x.getRank() == 0)
    return c.fail("indices of " + toString(index.getShape()) + " into " +
                  toString(x.getShape()));
  Shape left = x.getShape(), right = index.getShape();
  left[*dim] = right[*dim] = 1;
  auto common = broadcastShapes(left, right);
  if (failed(common))
    return c.fail("indices of " + toString(index.getShape()) + " into " +
                  toString(x.getShape()));
  Shape whole = *common, wholeIndex = *common;
  whole[*dim] = x.getShape()[*dim];
  wholeIndex[*dim] = index.getShape()[*dim];
  return c.give(
      gatherAlong(c.emit, c.emit.broadcast(x, whole, !x.isConstant()),
                  c.emit.broadcast(index, wholeIndex, !index.isConstant()),
                  *dim),
      c.typeOf("self"));
}

/// x[i, :, j]: the tensors in `indices` broadcast. Their dims replace the
/// indexed dims if these are adjacent, else they come first.
LogicalResult index(Call &c) {
  Imported x = c.read("self");
  if (auto computed = findComputedMask(c, c.tensors("indices"))) {
    auto &[mask, axis] = *computed;
    Shape shape = x.getShape(), over = mask.getShape();
    if (axis + mask.getRank() > x.getRank() ||
        ArrayRef(shape).slice(axis, mask.getRank()) != ArrayRef(over))
      return c.fail("a mask of " + toString(over) + " into " + toString(shape));
    auto count = countOf(c, mask, axis);
    if (failed(count))
      return failure();
    return c.give(takeTrue(c.emit, x, mask, axis, *count), c.typeOf("self"));
  }
  auto places = findPlaces(c, x.getShape(), c.tensors("indices"));
  if (failed(places))
    return failure();
  if (places->dims.empty())
    return c.give(x, c.typeOf("self"));
  if (places->dims.size() == 1 && places->mayPick)
    return c.give(pick(c, x, places->index, places->dims[0]), c.typeOf("self"));
  Imported picked = c.emit.binary<graph::GatherOp>(
      c.emit.reshape(c.emit.transpose(x, places->order), places->merged),
      places->index, places->at);
  return c.give(picked, c.typeOf("self"));
}

LogicalResult oneHot(Call &c) {
  if (failed(c.needIntegers("self")))
    return failure();
  Imported indices = c.read("self");
  int64_t classes = c.integer("num_classes");
  if (classes == -1) {
    if (!indices.isConstant() || indices.constant->size() == 0)
      return c.fail("its number of classes depends on the values of inputs or "
                    "parameters; give num_classes");
    classes = *llvm::max_element(indices.constant->integers) + 1;
  }
  Shape shape = indices.getShape();
  shape.push_back(1);
  indices = c.emit.reshape(indices, shape);
  shape.back() = classes;
  if (classes < 1 || failed(c.emit.fits(shape)))
    return c.fail("num_classes=" + Twine(classes));
  c.emit.limitIndices(indices, classes);
  bool known = indices.isConstant();
  return c.give(c.emit.binary<graph::CompareOp>(
                    c.emit.broadcast(indices, shape, !known),
                    c.emit.iota(shape, static_cast<int64_t>(shape.size()) - 1,
                                indices.getElementType()),
                    Comparison::EQ),
                ElementType::I64);
}

template <bool isUpper>
LogicalResult triangle(Call &c) {
  return c.give(
      triangleOf(c.emit, c.read("self"), c.integer("diagonal"), isUpper),
      c.typeOf("self"));
}

/// The indices of the nonzero elements in row-major order, as [dims, count].
FailureOr<Imported> nonzeroOf(Call &c, StringRef name) {
  Imported x = c.read(name);
  if (x.isConstant())
    return Imported(nonzeroPlaces(c.emit, *x.constant));
  Imported mask = c.as(x, ElementType::BOOL);
  auto count = countOf(c, mask, 0);
  if (failed(count))
    return failure();
  SmallVector<Imported> rows;
  for (const Imported &along : placesTrue(c.emit, mask, *count))
    rows.push_back(c.emit.reshape(along, {1, *count}));
  if (rows.empty())
    return c.fail("the places of a tensor without dims");
  return c.emit.concat(rows, 0);
}

LogicalResult nonzero(Call &c) {
  auto places = nonzeroOf(c, "self");
  if (failed(places))
    return failure();
  return c.give(c.emit.transpose(*places, {1, 0}), ElementType::I64);
}

/// A list of the indices along each dim.
LogicalResult nonzeroLists(Call &c) {
  auto places = nonzeroOf(c, c.has("self") ? "self" : "condition");
  if (failed(places))
    return failure();
  int64_t rank = places->getShape()[0], count = places->getShape()[1];
  List results;
  for (int64_t dim = 0; dim < rank; ++dim)
    results.push_back(Value(std::make_shared<Tensor>(
        c.emit.reshape(c.emit.slice(*places, 0, dim, dim + 1), {count}),
        ElementType::I64)));
  return c.give(Value::list(std::move(results)));
}

//===-- in order ---------------------------------------------------------===//

/// Gives the values, if wanted, and the indices.
LogicalResult giveInOrder(Call &c, int64_t k, int64_t dim, bool descending,
                          bool withValues) {
  Imported x = c.read("self");
  ElementType type = c.typeOf("self");
  if (x.getRank() == 0) {
    if (withValues && failed(c.give(x, type)))
      return failure();
    return c.give(c.scalar(Value(0), ElementType::I64), ElementType::I64);
  }
  auto ordered = takeInOrder(c.emit, x, k, dim, descending);
  if (failed(ordered) || (withValues && failed(c.give(ordered->values, type))))
    return failure();
  return c.give(ordered->indices, ElementType::I64);
}

LogicalResult topk(Call &c) {
  auto dim = c.dim(c.integer("dim"), c.tensor("self")->getRank());
  if (failed(dim))
    return failure();
  return giveInOrder(c, c.integer("k"), *dim, c.flag("largest"),
                     /*withValues=*/true);
}

LogicalResult sorted(Call &c, bool withValues) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim))
    return failure();
  return giveInOrder(c, self->getRank() ? self->getShape()[*dim] : 1, *dim,
                     c.flag("descending"), withValues);
}

LogicalResult sort(Call &c) { return sorted(c, /*withValues=*/true); }
LogicalResult argsort(Call &c) { return sorted(c, /*withValues=*/false); }

const OperatorRow rows[] = {
    {"embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, "
     "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
     embedding},
    {"index_select(Tensor self, int dim, Tensor index) -> Tensor", indexSelect},
    {"gather(Tensor self, int dim, Tensor index, *, bool "
     "sparse_grad=False) -> Tensor",
     gather},
    {"take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
     takeAlong},
    {"index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index},
    {"index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor",
     index},
    {"one_hot(Tensor self, int num_classes=-1) -> Tensor", oneHot},
    {"tril(Tensor self, SymInt diagonal=0) -> Tensor", triangle<false>},
    {"tril_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)",
     triangle<false>},
    {"triu(Tensor self, SymInt diagonal=0) -> Tensor", triangle<true>},
    {"triu_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)", triangle<true>},
    {"nonzero(Tensor self) -> Tensor", nonzero},
    {"argwhere(Tensor self) -> Tensor", nonzero},
    {"nonzero_numpy(Tensor self) -> Tensor[]", nonzeroLists},
    {"where(Tensor condition) -> Tensor[]", nonzeroLists},
    {"topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool "
     "sorted=True) -> (Tensor values, Tensor indices)",
     topk},
    {"sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor "
     "values, Tensor indices)",
     sort},
    {"sort.stable(Tensor self, *, bool? stable, int dim=-1, bool "
     "descending=False) -> (Tensor values, Tensor indices)",
     sort},
    {"argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
     argsort},
    {"argsort.stable(Tensor self, *, bool stable, int dim=-1, bool "
     "descending=False) -> Tensor",
     argsort},
};

} // namespace

ArrayRef<OperatorRow> getIndexRows() { return rows; }

} // namespace polyrank::frontends::aten
