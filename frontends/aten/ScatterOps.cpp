// Writes elements into a tensor by index.

#include "frontends/emit/Scatter.h"

#include "frontends/aten/Call.h"
#include "frontends/aten/Indexing.h"
#include "frontends/emit/Arithmetic.h"
#include "frontends/emit/Indices.h"
#include "frontends/emit/Masks.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// x[mask] = values, or += with `accumulates`, for a mask that is computed at
/// run time: consecutive values, or one value for all.
LogicalResult putAtMask(Call &c, const Imported &x,
                        const ComputedMask &computed, Imported values,
                        bool accumulates) {
  auto [mask, axis] = computed;
  Shape shape = x.getShape(), over = mask.getShape();
  if (axis + mask.getRank() > x.getRank() ||
      ArrayRef(shape).slice(axis, mask.getRank()) != ArrayRef(over))
    return c.fail("a mask of " + toString(over) + " into " + toString(shape));
  Shape expected = shape;
  expected.erase(expected.begin() + axis,
                 expected.begin() + axis + mask.getRank());
  int64_t behind = x.getRank() - axis - mask.getRank(),
          given = values.getRank() - 1 - behind;
  int64_t count = given < 0 ? 1 : values.getShape()[given];
  expected.insert(expected.begin() + axis, count);
  auto common = broadcastShapes(values.getShape(), expected);
  if (failed(common) || *common != expected)
    return c.fail("values of " + toString(values.getShape()) +
                  " where the indices ask for " + toString(expected));
  values = c.emit.broadcast(values, expected, !values.isConstant());
  Imported zeros = c.emit.broadcast(c.emit.scalar(x.getElementType(), 0), shape,
                                    /*asValue=*/true);
  const Imported &base = accumulates ? zeros : x;
  Imported put;
  if (count == 1) {
    Shape one = expected, spread(shape.size(), 1);
    one.insert(one.begin() + axis, mask.getRank() - 1, 1);
    for (int64_t i = 0; i < mask.getRank(); ++i)
      spread[axis + i] = shape[axis + i];
    auto all = c.emit.broadcastAll(
        {c.emit.reshape(mask, spread), c.emit.reshape(values, one), base});
    if (failed(all))
      return failure();
    put = c.emit.select((*all)[0], c.as((*all)[1], c.typeOf("self")),
                        c.as((*all)[2], c.typeOf("self")));
  } else {
    put = putTrue(c.emit, base, mask, values, axis, /*isWhole=*/true);
  }
  return c.give(accumulates ? c.emit.binary<graph::AddOp>(x, put) : put,
                c.typeOf("self"));
}

/// x[i, :, j] = values, or += with `accumulate`.
LogicalResult indexPut(Call &c) {
  const TensorRef &self = c.tensor("self");
  ElementType type = self->getType();
  Imported x = self->read(c.emit), values = c.as(c["values"], type);
  std::vector<TensorRef> indices = c.tensors("indices");
  bool accumulates = c.flag("accumulate");
  // A single value is written where a mask is true.
  if (indices.size() == 1 && indices[0] &&
      indices[0]->getType() == ElementType::BOOL &&
      countElements(values.getShape()) == 1 && !accumulates) {
    Shape shape = indices[0]->getShape(), from = x.getShape();
    shape.resize(std::max(shape.size(), from.size()), 1);
    auto all =
        c.emit.broadcastAll({c.emit.reshape(indices[0]->read(c.emit), shape),
                             c.emit.reshape(values, {}), x});
    if (failed(all))
      return failure();
    return c.give(
        c.emit.select((*all)[0], c.as((*all)[1], type), c.as((*all)[2], type)),
        type);
  }
  if (auto computed = findComputedMask(c, indices))
    return putAtMask(c, x, *computed, values, accumulates);
  auto places = findPlaces(c, x.getShape(), indices);
  if (failed(places))
    return failure();
  if (places->dims.empty())
    return c.fail("no index");
  // [merged, rest..], with updates [index.., rest..].
  Shape merged = places->merged, index = places->index.getShape();
  int64_t count = countElements(index);
  Shape expected = merged;
  expected.erase(expected.begin() + places->at);
  expected.insert(expected.begin() + places->at, index.begin(), index.end());
  auto common = broadcastShapes(values.getShape(), expected);
  if (failed(common) || *common != expected)
    return c.fail("values of " + toString(values.getShape()) +
                  " where the indices ask for " + toString(expected));
  values = c.emit.broadcast(values, expected, !values.isConstant());
  auto toFront = [&](int64_t rank, int64_t at, int64_t length) {
    SmallVector<int64_t> order;
    for (int64_t i = 0; i < length; ++i)
      order.push_back(at + i);
    for (int64_t i = 0; i < rank; ++i)
      if (i < at || i >= at + length)
        order.push_back(i);
    return order;
  };
  auto indexRank = static_cast<int64_t>(index.size());
  Imported updates = c.emit.transpose(
      values, toFront(values.getRank(), places->at, indexRank));
  Shape rest = merged;
  rest.erase(rest.begin() + places->at);
  Shape rows = {count};
  rows.append(rest);
  Imported whole = c.emit.transpose(x, places->order);
  Shape apart = whole.getShape();
  SmallVector<int64_t> front = toFront(merged.size(), places->at, 1);
  Imported result;
  {
    Imported base = c.emit.transpose(c.emit.reshape(whole, merged), front);
    auto scattered =
        scatterSlices(c.emit, base, c.emit.reshape(places->index, {count}),
                      c.emit.reshape(updates, rows),
                      accumulates ? Scatter::Add : Scatter::Replace);
    if (failed(scattered))
      return failure();
    result = *scattered;
  }
  auto inverse = [](ArrayRef<int64_t> order) {
    SmallVector<int64_t> back(order.size());
    for (auto [i, dim] : llvm::enumerate(order))
      back[dim] = static_cast<int64_t>(i);
    return back;
  };
  result = c.emit.reshape(c.emit.transpose(result, inverse(front)), apart);
  return c.give(c.emit.transpose(result, inverse(places->order)), type);
}

/// `index` and updates of a scatter along a dim, cut to the size of the index.
struct Along {
  Imported x, index, updates;
  int64_t dim;
};

FailureOr<Along> getAlong(Call &c, StringRef source) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim) || failed(c.needIntegers("index")))
    return failure();
  if (self->getRank() == 0)
    return c.fail("indices " + c["index"].describe() + " into " +
                  c["self"].describe());
  Along along{self->read(c.emit), c.read("index"), {}, *dim};
  Shape shape = along.index.getShape();
  along.updates = c.as(c[source], self->getType());
  if (along.updates.getRank() == 0)
    along.updates =
        c.emit.broadcast(along.updates, shape, !along.updates.isConstant());
  if (along.updates.getRank() != static_cast<int64_t>(shape.size()))
    return c.fail("updates of " + toString(along.updates.getShape()) +
                  " for indices of " + toString(shape));
  for (size_t i = 0; i < shape.size(); ++i) {
    if (along.updates.getShape()[i] < shape[i])
      return c.fail("updates of " + toString(along.updates.getShape()) +
                    " for indices of " + toString(shape));
    along.updates =
        c.emit.slice(along.updates, static_cast<int64_t>(i), 0, shape[i]);
  }
  return along;
}

LogicalResult scatterBy(Call &c, StringRef source, Scatter reduction) {
  auto along = getAlong(c, source);
  if (failed(along))
    return failure();
  return c.give(scatterAlong(c.emit, along->x, along->index, along->updates,
                             along->dim, reduction),
                c.typeOf("self"));
}

LogicalResult scatterSource(Call &c) {
  return scatterBy(c, c.has("src") ? "src" : "value", Scatter::Replace);
}
LogicalResult scatterAdd(Call &c) { return scatterBy(c, "src", Scatter::Add); }

/// The neutral element of the combination.
double identityOf(Scatter reduction, Type type) {
  if (reduction == Scatter::Add)
    return 0;
  if (reduction == Scatter::Mul)
    return 1;
  bool isMax = reduction == Scatter::Max;
  if (isa<FloatType>(type))
    return isMax ? -std::numeric_limits<double>::infinity()
                 : std::numeric_limits<double>::infinity();
  // The bounds of int32, which a double represents exactly.
  return isMax ? INT32_MIN : INT32_MAX;
}

LogicalResult scatterReduce(Call &c) {
  StringRef reduce = c.text("reduce");
  auto reduction = llvm::StringSwitch<std::optional<Scatter>>(reduce)
                       .Cases({"sum", "add", "mean"}, Scatter::Add)
                       .Cases({"prod", "multiply"}, Scatter::Mul)
                       .Case("amax", Scatter::Max)
                       .Case("amin", Scatter::Min)
                       .Default(std::nullopt);
  if (!reduction)
    return c.fail("reduce='" + reduce +
                  "'; sum, prod, mean, amax and amin are supported");
  StringRef source = c.has("src") ? "src" : "value";
  bool includesSelf = !c.has("include_self") || c.flag("include_self"),
       isMean = reduce == "mean";
  if (includesSelf && !isMean)
    return scatterBy(c, source, *reduction);
  auto along = getAlong(c, source);
  if (failed(along))
    return failure();
  Arithmetic a{c.emit};
  Type type = along->x.getElementType();
  if (!isa<FloatType>(type) && (isMean || c.typeOf("self") == ElementType::I64))
    return c.fail("reduce='" + reduce + "' " +
                  (isMean ? "" : "with include_self=False ") + "of " +
                  longNameOf(c.typeOf("self")) + "; convert it to float32");
  // The number of updates per element.
  auto counts =
      scatterAlong(c.emit, a.number(0, along->x), along->index,
                   a.number(1, along->updates), along->dim, Scatter::Add);
  if (failed(counts))
    return failure();
  Imported isReached = a.is(*counts, graph::Comparison::GT, 0), x = along->x;
  if (!includesSelf)
    x = c.emit.select(isReached, a.number(identityOf(*reduction, type), x), x);
  auto result = scatterAlong(c.emit, x, along->index, along->updates,
                             along->dim, *reduction);
  if (failed(result))
    return failure();
  if (isMean)
    result = a.div(*result, includesSelf ? a.add(*counts, 1)
                                         : a.where(isReached, *counts, 1));
  return c.give(*result, c.typeOf("self"));
}

/// Slices along `dim`, one for each index.
LogicalResult indexedSlices(Call &c, const Value &source, Scatter reduction,
                            double factor) {
  const TensorRef &self = c.tensor("self");
  ElementType type = self->getType();
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim) || failed(c.needIntegers("index")))
    return failure();
  Imported x = self->read(c.emit), index = c.read("index"),
           updates = c.as(source, type);
  if (index.getRank() > 1 || x.getRank() == 0)
    return c.fail("indices " + c["index"].describe() + " into " +
                  c["self"].describe());
  int64_t count = countElements(index.getShape()), size = x.getShape()[*dim];
  index = wrapIndices(c.emit, c.emit.reshape(index, {count}), size);
  Shape shape = x.getShape();
  shape[*dim] = count;
  auto common = broadcastShapes(updates.getShape(), shape);
  if (failed(common) || *common != shape)
    return c.fail("updates of " + toString(updates.getShape()) + " where " +
                  toString(shape) + " are asked for");
  updates = c.emit.broadcast(updates, shape, !updates.isConstant());
  if (factor != 1)
    updates = c.emit.binaryOver<graph::MulOp>(
        updates, c.emit.scalar(updates.getElementType(), factor));
  SmallVector<int64_t> order = {*dim}, back;
  for (int64_t i = 0; i < x.getRank(); ++i)
    if (i != *dim)
      order.push_back(i);
  back.resize(order.size());
  for (auto [i, each] : llvm::enumerate(order))
    back[each] = static_cast<int64_t>(i);
  auto result = scatterSlices(c.emit, c.emit.transpose(x, order), index,
                              c.emit.transpose(updates, order), reduction);
  if (failed(result))
    return failure();
  return c.give(c.emit.transpose(*result, back), type);
}

LogicalResult indexAdd(Call &c) {
  return indexedSlices(c, c["source"], Scatter::Add, c.number("alpha"));
}
LogicalResult indexCopy(Call &c) {
  return indexedSlices(c, c["source"], Scatter::Replace, 1);
}
LogicalResult indexFill(Call &c) {
  return indexedSlices(c, c["value"], Scatter::Replace, 1);
}

/// self with `src` in place of one of its views: written through the view of a
/// copy.
LogicalResult writeView(Call &c, int64_t dim, int64_t start, int64_t end,
                        int64_t step, bool isElement) {
  const TensorRef &self = c.tensor("self");
  auto copy = std::make_shared<Tensor>(self->read(c.emit), self->getType());
  TensorRef part = Tensor::viewOf(c.emit, copy,
                                  {View::Kind::Slice, {dim, start, end, step}});
  if (isElement) {
    Shape shape = part->getShape();
    shape.erase(shape.begin() + dim);
    part = Tensor::viewOf(c.emit, part, {View::Kind::Reshape, shape});
  }
  Imported source = c.as(c["src"], self->getType());
  if (source.getShape() != part->getShape())
    return c.fail(toString(source.getShape()) + " into a part of " +
                  toString(part->getShape()));
  part->write(c.emit, source);
  return c.give(Value(copy));
}

LogicalResult sliceScatter(Call &c) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim))
    return failure();
  int64_t size = self->getRank() ? self->getShape()[*dim] : 0,
          step = c.integer("step");
  if (step < 1 || self->getRank() == 0)
    return c.fail("its step is " + Twine(step));
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  int64_t start = clamp(c.integer("start", 0));
  return writeView(c, *dim, start,
                   std::max(start, clamp(c.integer("end", size))),
                   std::min(step, size + 1), /*isElement=*/false);
}

LogicalResult selectScatter(Call &c) {
  const TensorRef &self = c.tensor("self");
  auto dim = c.dim(c.integer("dim"), self->getRank());
  if (failed(dim))
    return failure();
  int64_t size = self->getRank() ? self->getShape()[*dim] : 0,
          index = c.integer("index");
  index += index < 0 ? size : 0;
  if (index < 0 || index >= size)
    return c.fail("index " + Twine(index) + " into a dim of " + Twine(size));
  return writeView(c, *dim, index, index + 1, 1, /*isElement=*/true);
}

const OperatorRow rows[] = {
    {"index_put(Tensor self, Tensor?[] indices, Tensor values, bool "
     "accumulate=False) -> Tensor",
     indexPut},
    {"index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
     "accumulate=False) -> Tensor(a!)",
     indexPut},
    {"index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, "
     "bool accumulate=False) -> Tensor",
     indexPut},
    {"index_put_.hacked_twin(Tensor(a!) self, Tensor[] indices, Tensor "
     "values, bool accumulate=False) -> Tensor(a!)",
     indexPut},
    {"scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> "
     "Tensor",
     scatterSource},
    {"scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> "
     "Tensor(a!)",
     scatterSource},
    {"scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> "
     "Tensor",
     scatterSource},
    {"scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar "
     "value) -> Tensor(a!)",
     scatterSource},
    {"scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> "
     "Tensor",
     scatterAdd},
    {"scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> "
     "Tensor(a!)",
     scatterAdd},
    {"scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, "
     "str reduce, *, bool include_self=True) -> Tensor",
     scatterReduce},
    {"scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor "
     "src, str reduce, *, bool include_self=True) -> Tensor(a!)",
     scatterReduce},
    {"scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, "
     "str reduce) -> Tensor",
     scatterReduce},
    {"scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, "
     "*, str reduce) -> Tensor(a!)",
     scatterReduce},
    {"scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar "
     "value, *, str reduce) -> Tensor",
     scatterReduce},
    {"scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, "
     "Scalar value, *, str reduce) -> Tensor(a!)",
     scatterReduce},
    {"index_add(Tensor self, int dim, Tensor index, Tensor source, *, "
     "Scalar alpha=1) -> Tensor",
     indexAdd},
    {"index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, "
     "*, Scalar alpha=1) -> Tensor(a!)",
     indexAdd},
    {"index_copy(Tensor self, int dim, Tensor index, Tensor source) -> "
     "Tensor",
     indexCopy},
    {"index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) "
     "-> Tensor(a!)",
     indexCopy},
    {"index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar "
     "value) -> Tensor",
     indexFill},
    {"index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, "
     "Scalar value) -> Tensor(a!)",
     indexFill},
    {"index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor "
     "value) -> Tensor",
     indexFill},
    {"index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, "
     "Tensor value) -> Tensor(a!)",
     indexFill},
    {"slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? "
     "start=None, SymInt? end=None, SymInt step=1) -> Tensor",
     sliceScatter},
    {"select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> "
     "Tensor",
     selectScatter},
};

} // namespace

ArrayRef<OperatorRow> getScatterRows() { return rows; }

} // namespace polyrank::frontends::aten
