// Reductions.

#include <cmath>

#include "frontends/aten/Call.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;
using sharding::ReductionKind;

/// What was reduced over `dims` of `shape`, with these dims as 1 where the call
/// says so.
Imported finish(Call &c, const Imported &reduced, ArrayRef<int64_t> shape,
                ArrayRef<int64_t> dims) {
  return c.has("keepdim") && c.flag("keepdim")
             ? c.emit.keepDims(reduced, shape, dims)
             : reduced;
}

/// self in the type of the sum: `dtype`, else int64 for integers.
FailureOr<std::pair<Imported, ScalarType>> summand(Call &c) {
  ScalarType type = c.typeOf("self");
  auto wanted = c.dtype(isFloat(type) ? type : ScalarType::Long);
  if (failed(wanted))
    return failure();
  return std::pair(c.as(c["self"], *wanted), *wanted);
}

FailureOr<SmallVector<int64_t>> dimsOf(Call &c) {
  int64_t rank = c.tensor("self")->getRank();
  if (!c.has("dim"))
    return llvm::to_vector(llvm::seq<int64_t>(rank));
  return c.dims("dim", rank);
}

LogicalResult sum(Call &c) {
  auto x = summand(c);
  auto dims = dimsOf(c);
  if (failed(x) || failed(dims))
    return failure();
  return c.give(finish(c, c.emit.reduce(ReductionKind::Sum, x->first, *dims),
                       x->first.getShape(), *dims),
                x->second);
}

LogicalResult mean(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  auto dims = dimsOf(c);
  if (failed(type) || failed(dims))
    return failure();
  if (!isFloat(*type))
    return c.fail("a mean of " + nameOf(*type) + "; convert it to float32");
  Imported x = c.as(c["self"], *type);
  return c.give(finish(c, c.emit.mean(x, *dims), x.getShape(), *dims), *type);
}

LogicalResult product(Call &c) {
  auto x = summand(c);
  auto dims = dimsOf(c);
  if (failed(x) || failed(dims))
    return failure();
  return c.give(finish(c, productOver(c.emit, x->first, *dims),
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
  auto dims = dimsOf(c);
  if (failed(dims) || failed(needElements(c, *dims)))
    return failure();
  Imported x = c.read("self");
  return c.give(finish(c, c.emit.reduce(kind, x, *dims), x.getShape(), *dims),
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
    return c.give(c.scalar(Value(0), ScalarType::Long), ScalarType::Long);
  }
  if (failed(needElements(c, {*dim})))
    return failure();
  auto kind = largest ? ReductionKind::Max : ReductionKind::Min;
  Imported values = c.emit.reduce(kind, x, {*dim}, /*first=*/true),
           indices = argExtremum(c.emit, x, *dim, largest);
  if (failed(c.give(finish(c, values, x.getShape(), {*dim}), c.typeOf("self"))))
    return failure();
  return c.give(finish(c, indices, x.getShape(), {*dim}), ScalarType::Long);
}

template <bool largest>
LogicalResult argument(Call &c) {
  Imported x = c.read("self");
  if (c.typeOf("self") == ScalarType::Bool)
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
    return c.give(c.scalar(Value(0), ScalarType::Long), ScalarType::Long);
  if (x.getShape()[dim] == 0)
    return c.fail("an extremum of no elements of " + toString(shape));
  Imported result = argExtremum(c.emit, x, dim, largest);
  if (c.flag("keepdim")) {
    SmallVector<int64_t> dims = {dim};
    if (!c.has("dim"))
      dims = llvm::to_vector(llvm::seq<int64_t>(shape.size()));
    result = c.emit.keepDims(result, shape, dims);
  }
  return c.give(result, ScalarType::Long);
}

/// Whether any or all elements are not 0: an extremum of 0 and 1.
template <ReductionKind kind>
LogicalResult logical(Call &c) {
  auto dims = dimsOf(c);
  if (failed(dims))
    return failure();
  ScalarType type = c.typeOf("self") == ScalarType::Byte ? ScalarType::Byte
                                                         : ScalarType::Bool;
  Imported x = c.emit.convert(c.as(c["self"], ScalarType::Bool),
                              c.emit.getBuilder().getI32Type());
  return c.give(
      c.as(finish(c, c.emit.reduce(kind, x, *dims), x.getShape(), *dims),
           ScalarType::Bool),
      type);
}

LogicalResult countNonzero(Call &c) {
  auto dims = dimsOf(c);
  if (failed(dims))
    return failure();
  Imported x = c.emit.convert(c.as(c["self"], ScalarType::Bool),
                              c.emit.getBuilder().getI64Type());
  return c.give(c.emit.reduce(ReductionKind::Sum, x, *dims), ScalarType::Long);
}

LogicalResult logSumExp(Call &c) {
  auto dims = dimsOf(c);
  if (failed(dims))
    return failure();
  ScalarType type = Call::floatOf(c.typeOf("self"));
  Imported x = c.as(c["self"], type);
  return c.give(finish(c, logSumExpOf(c.emit, x, *dims), x.getShape(), *dims),
                type);
}

//===-- moments ----------------------------------------------------------===//

struct Moments {
  Imported variance, mean; // both with their dims as 1
  ScalarType type;
  SmallVector<int64_t> dims;
};

/// The variance of centred values, over their number less `correction` (1: the
/// unbiased one).
FailureOr<Moments> momentsOf(Call &c) {
  auto dims = dimsOf(c);
  if (failed(dims))
    return failure();
  ScalarType type = c.typeOf("self");
  if (!isFloat(type))
    return c.fail("the variance of " + nameOf(type) +
                  "; convert it to float32");
  double correction = 1;
  if (c.has("correction"))
    correction = c.number("correction");
  else if (c.has("unbiased"))
    correction = c.flag("unbiased") ? 1 : 0;
  Imported x = c.read("self");
  Shape shape = x.getShape();
  int64_t count = 1;
  for (int64_t dim : *dims)
    count *= shape[dim];
  double over = static_cast<double>(count) - correction;
  if (!(over > 0))
    return c.fail("the variance of " + Twine(count) +
                  " elements with a correction of " +
                  std::to_string(correction));
  Imported mean = c.emit.keepDims(c.emit.mean(x, *dims), shape, *dims);
  Imported centred = c.emit.binaryOver<graph::SubOp>(x, mean);
  Imported sum = c.emit.reduce(
      ReductionKind::Sum, c.emit.binary<graph::MulOp>(centred, centred), *dims);
  Imported variance =
      c.emit.binaryOver<graph::DivOp>(c.emit.keepDims(sum, shape, *dims),
                                      c.emit.scalar(x.getElementType(), over));
  return Moments{variance, mean, type, *dims};
}

LogicalResult giveMoment(Call &c, const Moments &moments, const Imported &x) {
  bool keeps = c.has("keepdim") && c.flag("keepdim");
  Shape shape = x.getShape(), left;
  for (auto [i, size] : llvm::enumerate(shape))
    if (keeps || !llvm::is_contained(moments.dims, static_cast<int64_t>(i)))
      left.push_back(size);
  return c.give(c.emit.reshape(x, left), moments.type);
}

template <bool isRoot, bool withMean>
LogicalResult variance(Call &c) {
  auto moments = momentsOf(c);
  if (failed(moments))
    return failure();
  Imported x = moments->variance;
  if (failed(giveMoment(c, *moments, isRoot ? rootOf(c.emit, x) : x)))
    return failure();
  return withMean ? giveMoment(c, *moments, moments->mean) : success();
}

//===-- norms ------------------------------------------------------------===//

/// (sum of |x|^p)^(1/p). That of p = 2 has no gradient at 0.
LogicalResult normOf(Call &c, double p) {
  auto type = c.dtype(c.typeOf("self"));
  auto dims = dimsOf(c);
  if (failed(type) || failed(dims))
    return failure();
  if (!isFloat(*type))
    return c.fail("a norm of " + nameOf(*type) + "; convert it to float32");
  Imported x = c.as(c["self"], *type), result;
  Shape shape = x.getShape();
  auto sumOf = [&](const Imported &y) {
    return c.emit.reduce(ReductionKind::Sum, y, *dims);
  };
  auto scalar = [&](double value) {
    return c.emit.scalar(x.getElementType(), value);
  };
  Imported magnitude = c.emit.unary<graph::AbsOp>(x);
  if (p == 2)
    result = rootOf(c.emit, sumOf(c.emit.binary<graph::MulOp>(x, x)));
  else if (p == 1)
    result = sumOf(magnitude);
  else if (std::isinf(p))
    result = c.emit.reduce(p > 0 ? ReductionKind::Max : ReductionKind::Min,
                           magnitude, *dims);
  else if (p == 0)
    result = sumOf(c.emit.convert(
        c.emit.binaryOver<graph::CompareOp>(x, scalar(0), Comparison::NE),
        x.getElementType()));
  else
    result = c.emit.binaryOver<graph::PowOp>(
        sumOf(c.emit.binaryOver<graph::PowOp>(magnitude, scalar(p))),
        scalar(1 / p));
  return c.give(finish(c, result, shape, *dims), *type);
}

LogicalResult norm(Call &c) {
  return normOf(c, c.has("p") ? c.number("p") : 2);
}
LogicalResult vectorNorm(Call &c) { return normOf(c, c.number("ord")); }

//===-- sums of the elements before ---------------------------------------===//

LogicalResult cumsum(Call &c) {
  auto x = summand(c);
  if (failed(x))
    return failure();
  auto dim = c.dim(c.integer("dim"), x->first.getRank());
  if (failed(dim))
    return failure();
  if (x->first.getRank() == 0)
    return c.give(x->first, x->second);
  return c.give(cumulativeSum(c.emit, x->first, *dim), x->second);
}

/// x[i + 1] - x[i], `n` times, of `self` with what stands before and behind it.
LogicalResult diff(Call &c) {
  ScalarType type = c.typeOf("self");
  for (StringRef name : {"prepend", "append"})
    if (c.has(name))
      type = promoteTypes(type, c.typeOf(name));
  Imported x = c.as(c["self"], type);
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  SmallVector<Imported> parts;
  for (StringRef name : {"prepend", "self", "append"}) {
    if (!c.has(name))
      continue;
    parts.push_back(c.as(c[name], type));
    Shape shape = parts.back().getShape(), expected = x.getShape();
    if (shape.size() == expected.size() && !shape.empty())
      shape[*dim] = expected[*dim];
    if (shape != expected || shape.empty())
      return c.fail("`" + name + "` of " + toString(parts.back().getShape()) +
                    " beside " + toString(x.getShape()));
  }
  x = c.emit.concat(parts, *dim);
  bool isBool = type == ScalarType::Bool;
  for (int64_t i = 0; i < c.integer("n"); ++i) {
    int64_t size = x.getRank() ? x.getShape()[*dim] : 0;
    if (size < 1)
      return c.fail("differences of " + toString(x.getShape()));
    Imported later = c.emit.slice(x, *dim, 1, size),
             earlier = c.emit.slice(x, *dim, 0, size - 1);
    x = isBool ? c.emit.binary<graph::CompareOp>(later, earlier, Comparison::NE)
               : c.emit.binary<graph::SubOp>(later, earlier);
  }
  return c.give(x, type);
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
    {"all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     logical<ReductionKind::Min>},
    {"all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     logical<ReductionKind::Min>},
    {"count_nonzero(Tensor self, int? dim=None) -> Tensor", countNonzero},
    {"count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
     countNonzero},
    {"logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     logSumExp},
    {"var(Tensor self, bool unbiased=True) -> Tensor", variance<false, false>},
    {"var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
     "keepdim=False) -> Tensor",
     variance<false, false>},
    {"var.correction(Tensor self, int[1]? dim=None, *, Scalar? "
     "correction=None, bool keepdim=False) -> Tensor",
     variance<false, false>},
    {"std(Tensor self, bool unbiased=True) -> Tensor", variance<true, false>},
    {"std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
     "keepdim=False) -> Tensor",
     variance<true, false>},
    {"std.correction(Tensor self, int[1]? dim=None, *, Scalar? "
     "correction=None, bool keepdim=False) -> Tensor",
     variance<true, false>},
    {"var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
     variance<false, true>},
    {"var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
     "keepdim=False) -> (Tensor, Tensor)",
     variance<false, true>},
    {"var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? "
     "correction=None, bool keepdim=False) -> (Tensor, Tensor)",
     variance<false, true>},
    {"std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
     variance<true, true>},
    {"std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool "
     "keepdim=False) -> (Tensor, Tensor)",
     variance<true, true>},
    {"std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? "
     "correction=None, bool keepdim=False) -> (Tensor, Tensor)",
     variance<true, true>},
    {"norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm},
    {"norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool "
     "keepdim=False) -> Tensor",
     norm},
    {"norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool "
     "keepdim, *, ScalarType dtype) -> Tensor",
     norm},
    {"norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) "
     "-> Tensor",
     norm},
    {"linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, "
     "bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     vectorNorm},
    {"cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     cumsum},
    {"cumsum_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> "
     "Tensor(a!)",
     cumsum},
    {"diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, "
     "Tensor? append=None) -> Tensor",
     diff},
};

} // namespace

ArrayRef<OperatorRow> getReductionRows() { return rows; }

} // namespace polyrank::frontends::aten
