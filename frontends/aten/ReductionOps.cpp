// Reductions.

#include <cmath>

#include "frontends/aten/Reduction.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends::aten {

FailureOr<SmallVector<int64_t>> reducedDims(Call &c) {
  int64_t rank = c.tensor("self")->getRank();
  if (!c.has("dim"))
    return llvm::to_vector(llvm::seq<int64_t>(rank));
  return c.dims("dim", rank);
}

Imported finishReduction(Call &c, const Imported &reduced,
                         ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  return c.has("keepdim") && c.flag("keepdim")
             ? c.emit.keepDims(reduced, shape, dims)
             : reduced;
}

FailureOr<std::pair<Imported, ElementType>> summand(Call &c) {
  ElementType type = c.typeOf("self");
  auto wanted = c.dtype(isFloat(type) ? type : ElementType::I64);
  if (failed(wanted))
    return failure();
  return std::pair(c.as(c["self"], *wanted), *wanted);
}

namespace {

using graph::Comparison;
using sharding::ReductionKind;

LogicalResult sum(Call &c) {
  auto x = summand(c);
  auto dims = reducedDims(c);
  if (failed(x) || failed(dims))
    return failure();
  return c.give(
      finishReduction(c, c.emit.reduce(ReductionKind::Sum, x->first, *dims),
                      x->first.getShape(), *dims),
      x->second);
}

LogicalResult mean(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  auto dims = reducedDims(c);
  if (failed(type) || failed(dims))
    return failure();
  if (!isFloat(*type))
    return c.fail("a mean of " + longNameOf(*type) + "; convert it to float32");
  Imported x = c.as(c["self"], *type);
  return c.give(finishReduction(c, c.emit.mean(x, *dims), x.getShape(), *dims),
                *type);
}

LogicalResult product(Call &c) {
  auto x = summand(c);
  auto dims = reducedDims(c);
  if (failed(x) || failed(dims))
    return failure();
  return c.give(finishReduction(c, productOver(c.emit, x->first, *dims),
                                x->first.getShape(), *dims),
                x->second);
}

LogicalResult needElements(Call &c, ArrayRef<int64_t> dims) {
  Shape shape = c.tensor("self")->getShape();
  for (int64_t dim : dims)
    if (shape[dim] == 0)
      return c.fail("an extremum of no elements of " + toString(shape));
  return success();
}

/// Equal elements share the gradient.
template <ReductionKind kind>
LogicalResult extremum(Call &c) {
  auto dims = reducedDims(c);
  if (failed(dims) || failed(needElements(c, *dims)))
    return failure();
  Imported x = c.read("self");
  return c.give(
      finishReduction(c, c.emit.reduce(kind, x, *dims), x.getShape(), *dims),
      c.typeOf("self"));
}

/// Values and indices; the gradient goes to the first of equal elements.
template <bool largest>
LogicalResult extremumAlong(Call &c) {
  auto dim = c.dim(c.integer("dim"), c.tensor("self")->getRank());
  if (failed(dim))
    return failure();
  Imported x = c.read("self");
  if (x.getRank() == 0) {
    if (failed(c.give(x, c.typeOf("self"))))
      return failure();
    return c.give(c.scalar(Value(0), ElementType::I64), ElementType::I64);
  }
  if (failed(needElements(c, {*dim})))
    return failure();
  auto kind = largest ? ReductionKind::Max : ReductionKind::Min;
  Imported values = c.emit.reduce(kind, x, {*dim}, /*first=*/true),
           indices = argExtremum(c.emit, x, *dim, largest);
  if (failed(c.give(finishReduction(c, values, x.getShape(), {*dim}),
                    c.typeOf("self"))))
    return failure();
  return c.give(finishReduction(c, indices, x.getShape(), {*dim}),
                ElementType::I64);
}

template <bool largest>
LogicalResult argument(Call &c) {
  Imported x = c.read("self");
  if (c.typeOf("self") == ElementType::BOOL)
    return c.fail("argmax of booleans; convert them to integers (x.long())");
  int64_t dim = 0;
  Shape shape = x.getShape();
  if (c.has("dim")) {
    auto given = c.dim(c.integer("dim"), x.getRank());
    if (failed(given))
      return failure();
    dim = *given;
  } else {
    x = c.emit.reshape(x, {countElements(shape)});
  }
  if (x.getRank() == 0)
    return c.give(c.scalar(Value(0), ElementType::I64), ElementType::I64);
  if (x.getShape()[dim] == 0)
    return c.fail("an extremum of no elements of " + toString(shape));
  Imported result = argExtremum(c.emit, x, dim, largest);
  if (c.flag("keepdim")) {
    SmallVector<int64_t> dims = {dim};
    if (!c.has("dim"))
      dims = llvm::to_vector(llvm::seq<int64_t>(shape.size()));
    result = c.emit.keepDims(result, shape, dims);
  }
  return c.give(result, ElementType::I64);
}

/// True if any or all elements are nonzero: an extremum of 0 and 1.
template <ReductionKind kind>
LogicalResult logical(Call &c) {
  auto dims = reducedDims(c);
  if (failed(dims))
    return failure();
  ElementType type =
      c.typeOf("self") == ElementType::U8 ? ElementType::U8 : ElementType::BOOL;
  Imported x = c.emit.convert(c.as(c["self"], ElementType::BOOL),
                              c.emit.getBuilder().getI32Type());
  return c.give(c.as(finishReduction(c, c.emit.reduce(kind, x, *dims),
                                     x.getShape(), *dims),
                     ElementType::BOOL),
                type);
}

LogicalResult countNonzero(Call &c) {
  auto dims = reducedDims(c);
  if (failed(dims))
    return failure();
  Imported x = c.emit.convert(c.as(c["self"], ElementType::BOOL),
                              c.emit.getBuilder().getI64Type());
  return c.give(c.emit.reduce(ReductionKind::Sum, x, *dims), ElementType::I64);
}

LogicalResult logSumExp(Call &c) {
  auto dims = reducedDims(c);
  if (failed(dims))
    return failure();
  ElementType type = Call::floatOf(c.typeOf("self"));
  Imported x = c.as(c["self"], type);
  return c.give(
      finishReduction(c, logSumExpOf(c.emit, x, *dims), x.getShape(), *dims),
      type);
}

/// The number of elements in each of `bins` equal parts of [min, max]; an
/// element at max is in the last one.
LogicalResult histc(Call &c) {
  ElementType type = Call::floatOf(c.typeOf("self"));
  int64_t bins = c.integer("bins");
  double min = c.number("min"), max = c.number("max");
  if (bins < 1 || bins > maxElements)
    return c.fail(Twine(bins) + " bins");
  if (!(min < max))
    return c.fail("bins between the least and the largest element, which "
                  "depend on inputs or parameters; give min and max");
  Imported x = c.as(c["self"], type);
  x = c.emit.reshape(x, {countElements(x.getShape())});
  Type element = x.getElementType();
  auto number = [&](double value) { return c.emit.scalar(element, value); };
  Imported place = c.emit.unary<graph::FloorOp>(c.emit.binaryOver<graph::DivOp>(
      c.emit.binaryOver<graph::MulOp>(
          c.emit.binaryOver<graph::SubOp>(x, number(min)),
          number(static_cast<double>(bins))),
      number(max - min)));
  Imported isLast = c.emit.binary<graph::CompareOp>(
      x, c.emit.broadcast(number(max), x.getShape(), !x.isConstant()),
      graph::Comparison::EQ);
  place = c.emit.select(isLast,
                        c.emit.broadcast(number(static_cast<double>(bins - 1)),
                                         x.getShape(), !x.isConstant()),
                        place);
  Shape shape = {bins, x.getShape()[0]};
  if (failed(c.emit.fits(shape)))
    return failure();
  Imported isThere = c.emit.binary<graph::CompareOp>(
      c.emit.broadcast(place, shape, !place.isConstant()),
      c.emit.iota(shape, 0, element), graph::Comparison::EQ);
  return c.give(
      c.emit.reduce(ReductionKind::Sum, c.emit.convert(isThere, element), {1}),
      type);
}

const OperatorRow rows[] = {
    {"sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", sum},
    {"sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     sum},
    {"mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", mean},
    {"mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     mean},
    {"prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", product},
    {"prod.dim_int(Tensor self, int dim, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     product},
    {"amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     extremum<ReductionKind::Max>},
    {"max(Tensor self) -> Tensor", extremum<ReductionKind::Max>},
    {"amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     extremum<ReductionKind::Min>},
    {"min(Tensor self) -> Tensor", extremum<ReductionKind::Min>},
    {"max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor "
     "values, Tensor indices)",
     extremumAlong<true>},
    {"min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor "
     "values, Tensor indices)",
     extremumAlong<false>},
    {"argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     argument<true>},
    {"argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     argument<false>},
    {"any(Tensor self) -> Tensor", logical<ReductionKind::Max>},
    {"any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     logical<ReductionKind::Max>},
    {"any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     logical<ReductionKind::Max>},
    {"all(Tensor self) -> Tensor", logical<ReductionKind::Min>},
    {"_is_all_true(Tensor self) -> Tensor", logical<ReductionKind::Min>},
    {"_is_any_true(Tensor self) -> Tensor", logical<ReductionKind::Max>},
    {"all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     logical<ReductionKind::Min>},
    {"all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     logical<ReductionKind::Min>},
    {"count_nonzero(Tensor self, int? dim=None) -> Tensor", countNonzero},
    {"count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
     countNonzero},
    {"logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     logSumExp},
    {"histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
     histc},
};

} // namespace

ArrayRef<OperatorRow> getReductionRows() { return rows; }

} // namespace polyrank::frontends::aten
