// Variances and norms.

#include <cmath>

#include "frontends/aten/Reduction.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;
using sharding::ReductionKind;

//===-- moments ----------------------------------------------------------===//

struct Moments {
  Imported variance, mean; // both with the reduced dims kept as 1
  ElementType type;
  SmallVector<int64_t> dims;
};

/// The variance, computed from centred values, with the divisor count -
/// `correction` (1: unbiased).
FailureOr<Moments> momentsOf(Call &c) {
  auto dims = reducedDims(c);
  if (failed(dims))
    return failure();
  ElementType type = c.typeOf("self");
  if (!isFloat(type))
    return c.fail("the variance of " + longNameOf(type) +
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

LogicalResult giveNorm(Call &c, double p) {
  auto type = c.dtype(c.typeOf("self"));
  auto dims = reducedDims(c);
  if (failed(type) || failed(dims))
    return failure();
  if (!isFloat(*type))
    return c.fail("a norm of " + longNameOf(*type) + "; convert it to float32");
  Imported x = c.as(c["self"], *type);
  return c.give(
      finishReduction(c, normOf(c.emit, x, p, *dims), x.getShape(), *dims),
      *type);
}

LogicalResult norm(Call &c) {
  return giveNorm(c, c.has("p") ? c.number("p") : 2);
}
LogicalResult vectorNorm(Call &c) { return giveNorm(c, c.number("ord")); }

const OperatorRow rows[] = {
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
};

} // namespace

ArrayRef<OperatorRow> getMomentRows() { return rows; }

} // namespace polyrank::frontends::aten
