// Computes the norm of all gradients, and clips gradients.

#include "compiler/training/Clip.h"

#include <cmath>

#include "dialects/graph/ElementTypes.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

FailureOr<Clip> Clip::parse(double norm, StringRef kind, double value,
                            EmitError emitError) {
  auto isLimit = [](double limit) {
    return limit == 0 || (std::isfinite(limit) && limit > 0);
  };
  if (!isLimit(norm))
    return emitError() << "--clip-norm " << norm << ": must be positive";
  if (!isLimit(value))
    return emitError() << "--clip-value " << value << ": must be positive";
  if (norm != 0 && value != 0)
    return emitError() << "--clip-norm " << norm << " and --clip-value "
                       << value << ": gradients are clipped by one of them";
  if (kind != "2" && kind != "inf")
    return emitError() << "--clip-norm-type " << kind
                       << ": there are 2 and inf";
  return Clip{norm, kind == "2" ? Norm::Two : Norm::Infinity, value};
}

/// The type in which the norm of `values` is computed: the widest of their
/// accumulators.
static Type getNormType(OpBuilder &builder, ArrayRef<Value> values) {
  Type widest = graph::statisticType(builder.getContext());
  for (Value value : values) {
    Type type =
        graph::accumulatorOf(graph::getGlobalType(value).getElementType());
    if (type.getIntOrFloatBitWidth() > widest.getIntOrFloatBitWidth())
      widest = type;
  }
  return widest;
}

Value polyrank::training::buildNorm(Parts &parts, Clip::Norm kind,
                                    ArrayRef<Value> values) {
  Type type = getNormType(parts.builder, values);
  Value total;
  for (Value value : values) {
    if (graph::getGlobalType(value).getElementType() != type)
      value = parts.convert(value, type);
    auto dims =
        llvm::to_vector(llvm::seq<int64_t>(0, graph::getShape(value).size()));
    bool isTwo = kind == Clip::Norm::Two;
    Value size =
        isTwo ? parts.mul(value, value) : parts.apply<graph::AbsOp>(value);
    if (!dims.empty())
      size = parts.reduce(isTwo ? sharding::ReductionKind::Sum
                                : sharding::ReductionKind::Max,
                          size, dims);
    total = !total  ? size
            : isTwo ? parts.add(total, size)
                    : parts.apply<graph::MaxOp>(total, size);
  }
  return kind == Clip::Norm::Two ? parts.apply<graph::SqrtOp>(total) : total;
}

Clip::Scale Clip::buildScale(Parts &parts, ArrayRef<Value> gradients,
                             Value factor) const {
  if (norm == 0 || gradients.empty())
    return {factor, {}, {}};
  // The factor is not negative, so it can be multiplied after the norm.
  Value unscaled = buildNorm(parts, kind, gradients), before = unscaled;
  Type type = graph::getGlobalType(before).getElementType();
  if (factor && graph::getGlobalType(factor).getElementType() != type)
    factor = parts.convert(factor, type);
  if (factor)
    before = parts.mul(before, factor);
  // The 1e-6 is PyTorch's and keeps the quotient finite; NaN stays NaN.
  Value clipped = parts.apply<graph::MinOp>(
      parts.div(parts.splat(before, norm), parts.add(before, 1e-6)),
      parts.splat(before, 1));
  return {factor ? parts.mul(factor, clipped) : clipped, before, unscaled};
}

Value Clip::limit(Parts &parts, Value gradient) const {
  if (value == 0)
    return gradient;
  return parts.apply<graph::MaxOp>(
      parts.apply<graph::MinOp>(gradient, parts.splat(gradient, value)),
      parts.splat(gradient, -value));
}
