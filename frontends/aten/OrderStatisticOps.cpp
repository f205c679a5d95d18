// Medians, quantiles, and searches in sorted sequences.

#include "frontends/aten/Reduction.h"
#include "frontends/emit/Arithmetic.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"
#include "frontends/emit/Order.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

//===-- one element of a row ---------------------------------------------===//

/// self with at least one dim, and the dim along which elements are searched:
/// the argument `dim`, or, for operators without it, the only dim of the
/// flattened tensor.
struct Row {
  Imported x;
  int64_t dim = 0, size = 0;
};

FailureOr<Row> rowOf(Call &c) {
  Row row{c.read("self")};
  Shape shape = row.x.getShape();
  if (c.has("dim")) {
    auto dim = c.dim(c.integer("dim"), row.x.getRank());
    if (failed(dim))
      return failure();
    row.dim = *dim;
    if (shape.empty())
      row.x = c.emit.reshape(row.x, {1});
  } else {
    row.x = c.emit.reshape(row.x, {countElements(shape)});
  }
  row.size = row.x.getShape()[row.dim];
  if (row.size == 0)
    return c.fail("an element of none of " + toString(shape));
  return row;
}

/// True where elements are NaN; false for integers.
Imported isNan(Emitter &emit, const Imported &x) {
  return emit.binary<graph::CompareOp>(x, x, Comparison::NE);
}

/// Gives the elements at `indices`, which have size 1 along the row's dim, and
/// the indices too if the operator returns both.
LogicalResult giveElement(Call &c, const Row &row, const Imported &indices) {
  auto values = gatherAlong(c.emit, row.x, indices, row.dim);
  if (failed(values))
    return failure();
  Shape shape = row.x.getShape();
  shape[row.dim] = 1;
  bool keeps = c.has("keepdim") && c.flag("keepdim") && c.has("dim") &&
               c.tensor("self")->getRank() > 0;
  if (!keeps)
    shape.erase(shape.begin() + row.dim);
  if (failed(c.give(c.emit.reshape(*values, shape), c.typeOf("self"))))
    return failure();
  return c.has("dim") ? c.give(c.emit.reshape(indices, shape), ElementType::I64)
                      : success();
}

/// The index of element `k` in ascending order.
FailureOr<Imported> indexInOrder(Call &c, const Row &row, int64_t k) {
  auto ordered = takeInOrder(c.emit, row.x, k + 1, row.dim,
                             /*descending=*/false);
  if (failed(ordered))
    return failure();
  return c.emit.slice(ordered->indices, row.dim, k, k + 1);
}

/// For an even number of elements the lower of the two middle ones; NaN if any
/// element is NaN.
LogicalResult median(Call &c) {
  auto row = rowOf(c);
  if (failed(row))
    return failure();
  auto index = indexInOrder(c, *row, (row->size - 1) / 2);
  if (failed(index))
    return failure();
  if (isFloat(c.typeOf("self"))) {
    Type integer = c.emit.getBuilder().getI64Type();
    Imported nans = c.emit.convert(isNan(c.emit, row->x), integer);
    Imported first =
        c.emit.reshape(argExtremum(c.emit, nans, row->dim, /*largest=*/true),
                       index->getShape());
    Imported any = c.emit.keepDims(
        c.emit.reduce(sharding::ReductionKind::Max, nans, {row->dim}),
        row->x.getShape(), {row->dim});
    index = c.emit.select(Arithmetic{c.emit}.is(any, Comparison::NE, 0), first,
                          *index);
  }
  return giveElement(c, *row, *index);
}

/// The number of elements of each row that are not NaN; the row's dim is kept
/// as 1.
Imported countNumbers(Call &c, const Row &row) {
  Imported isNumber =
      c.emit.binary<graph::CompareOp>(row.x, row.x, Comparison::EQ);
  return c.emit.keepDims(
      Arithmetic{c.emit}.sum(
          c.emit.convert(isNumber, c.emit.getBuilder().getI64Type()),
          {row.dim}),
      row.x.getShape(), {row.dim});
}

/// The median of the elements that are not NaN. NaN sorts last.
LogicalResult nanMedian(Call &c) {
  if (!isFloat(c.typeOf("self")))
    return median(c);
  auto row = rowOf(c);
  if (failed(row))
    return failure();
  auto ordered = takeInOrder(c.emit, row->x, row->size, row->dim,
                             /*descending=*/false);
  if (failed(ordered))
    return failure();
  Arithmetic a{c.emit};
  Imported place = a.add(countNumbers(c, *row), -1);
  // If all are NaN, the first one is taken.
  place = c.emit.binary<graph::DivOp>(
      c.emit.binary<graph::MaxOp>(place, a.number(0, place)),
      a.number(2, place));
  auto index = gatherAlong(c.emit, ordered->indices, place, row->dim);
  return failed(index) ? failure() : giveElement(c, *row, *index);
}

/// The k-th smallest element, k counted from 1.
LogicalResult kthValue(Call &c) {
  auto row = rowOf(c);
  if (failed(row))
    return failure();
  int64_t k = c.integer("k");
  if (k < 1 || k > row->size)
    return c.fail("element " + Twine(k) + " of " + Twine(row->size));
  auto index = indexInOrder(c, *row, k - 1);
  return failed(index) ? failure() : giveElement(c, *row, *index);
}

//===-- quantiles --------------------------------------------------------===//

/// Interpolates between the two elements of the sorted row at rank q (size -
/// 1). A row with a NaN gives NaN or, with `skipsNan`, the quantile of its
/// numbers.
LogicalResult quantileOf(Call &c, bool skipsNan) {
  auto row = rowOf(c);
  if (failed(row))
    return failure();
  StringRef how = c.text("interpolation");
  if (!llvm::is_contained({"linear", "lower", "higher", "midpoint", "nearest"},
                          how))
    return c.fail("its interpolation `" + how + "`");
  ElementType type = c.typeOf("self");
  if (!isFloat(type))
    return c.fail("a quantile of " + longNameOf(type) +
                  "; convert it to float32");
  Imported q = c.as(c["q"], type);
  if (q.getRank() > 1)
    return c.fail("its q of " + toString(q.getShape()));
  if (q.isConstant())
    for (double each : q.constant->floats)
      if (!(each >= 0 && each <= 1))
        return c.fail("its q is " + std::to_string(each) +
                      ", and lies between 0 and 1");
  auto ordered = takeInOrder(c.emit, row->x, row->size, row->dim,
                             /*descending=*/false);
  if (failed(ordered))
    return failure();

  Arithmetic a{c.emit};
  Shape shape = row->x.getShape(), places(shape.size(), 1);
  int64_t count = countElements(q.getShape());
  places[row->dim] = count;
  // The ranks of the quantiles.
  Imported ratio = c.emit.reshape(q, places), place;
  if (skipsNan) {
    Imported last =
        c.emit.convert(a.add(countNumbers(c, *row), -1), q.getElementType());
    place = a.mul(ratio, c.emit.binary<graph::MaxOp>(last, a.number(0, last)));
  } else {
    // NaN sorts last, and rows that have one take it for every q.
    auto last = static_cast<double>(row->size - 1);
    Imported nans = c.emit.keepDims(
        c.emit.reduce(sharding::ReductionKind::Max,
                      c.emit.convert(isNan(c.emit, row->x), q.getElementType()),
                      {row->dim}),
        shape, {row->dim});
    auto both = c.emit.broadcastAll(
        {a.is(nans, Comparison::EQ, 0), a.mul(ratio, last)});
    if (failed(both))
      return failure();
    place = a.where((*both)[0], (*both)[1], last);
  }
  Imported below = a.floor(place), rest = a.sub(place, below);
  auto at = [&](const Imported &index) {
    return gatherAlong(c.emit, ordered->values,
                       c.emit.convert(index, c.emit.getBuilder().getI64Type()),
                       row->dim);
  };
  Imported above = a.add(below, c.emit.convert(a.is(rest, Comparison::GT, 0),
                                               rest.getElementType()));
  FailureOr<Imported> result;
  if (how == "lower" || how == "higher") {
    result = at(how == "lower" ? below : above);
  } else if (how == "nearest") {
    result = at(roundToEven(c.emit, place));
  } else {
    auto low = at(below), high = at(above);
    if (failed(low) || failed(high))
      return failure();
    Imported weight = how == "midpoint" ? a.number(0.5, *low) : rest;
    result = a.add(*low, a.mul(a.sub(*high, *low), weight));
  }
  if (failed(result))
    return failure();

  // The dim of the quantiles comes first; it exists if q has one.
  SmallVector<int64_t> order = {row->dim};
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (i != row->dim)
      order.push_back(i);
  Shape kept;
  if (q.getRank() == 1)
    kept.push_back(count);
  bool keeps = c.flag("keepdim");
  if (!c.has("dim")) {
    if (keeps)
      kept.append(c.tensor("self")->getRank(), 1);
  } else if (c.tensor("self")->getRank() > 0) {
    for (auto [i, size] : llvm::enumerate(shape))
      if (static_cast<int64_t>(i) != row->dim)
        kept.push_back(size);
      else if (keeps)
        kept.push_back(1);
  }
  return c.give(c.emit.reshape(c.emit.transpose(*result, order), kept), type);
}

LogicalResult quantile(Call &c) { return quantileOf(c, /*skipsNan=*/false); }
LogicalResult nanQuantile(Call &c) { return quantileOf(c, /*skipsNan=*/true); }

//===-- places in sorted sequences ---------------------------------------===//

LogicalResult giveCounted(Call &c, const Value &sorted, const Value &values) {
  const Value both[] = {sorted, values};
  ElementType type = promoteTypes(both);
  bool right = c.flag("right");
  if (c.has("side")) {
    StringRef side = c.text("side");
    if (side != "left" && side != "right")
      return c.fail("its side `" + side + "`");
    if (right && side == "left")
      return c.fail("its side `left` beside right=True");
    right = side == "right";
  }
  Imported sequence = c.as(sorted, type);
  if (c.has("sorter")) {
    auto inOrder =
        gatherAlong(c.emit, sequence, c.read("sorter"), sequence.getRank() - 1);
    if (failed(inOrder))
      return failure();
    sequence = *inOrder;
  }
  return c.give(countBefore(c.emit, sequence, c.as(values, type), right),
                c.flag("out_int32") ? ElementType::I32 : ElementType::I64);
}

LogicalResult bucketize(Call &c) {
  if (c.tensor("boundaries")->getRank() != 1)
    return c.fail("boundaries of " +
                  toString(c.tensor("boundaries")->getShape()));
  return giveCounted(c, c["boundaries"], c["self"]);
}

LogicalResult searchSorted(Call &c) {
  return giveCounted(c, c["sorted_sequence"], c["self"]);
}

const OperatorRow rows[] = {
    {"median(Tensor self) -> Tensor", median},
    {"median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, "
     "Tensor indices)",
     median},
    {"nanmedian(Tensor self) -> Tensor", nanMedian},
    {"nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor "
     "values, Tensor indices)",
     nanMedian},
    {"kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> "
     "(Tensor values, Tensor indices)",
     kthValue},
    {"quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, "
     "str interpolation='linear') -> Tensor",
     quantile},
    {"quantile.scalar(Tensor self, float q, int? dim=None, bool "
     "keepdim=False, *, str interpolation='linear') -> Tensor",
     quantile},
    {"nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, "
     "*, str interpolation='linear') -> Tensor",
     nanQuantile},
    {"nanquantile.scalar(Tensor self, float q, int? dim=None, bool "
     "keepdim=False, *, str interpolation='linear') -> Tensor",
     nanQuantile},
    {"bucketize.Tensor(Tensor self, Tensor boundaries, *, bool "
     "out_int32=False, bool right=False) -> Tensor",
     bucketize},
    {"searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool "
     "out_int32=False, bool right=False, str? side=None, Tensor? "
     "sorter=None) -> Tensor",
     searchSorted},
    {"searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool "
     "out_int32=False, bool right=False, str? side=None, Tensor? "
     "sorter=None) -> Tensor",
     searchSorted},
};

} // namespace

ArrayRef<OperatorRow> getOrderStatisticRows() { return rows; }

} // namespace polyrank::frontends::aten
