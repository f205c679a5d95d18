// Operators that combine an element with those before it in a dim.

#include "frontends/aten/Reduction.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

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

/// x[i + 1] - x[i], `n` times, where x is `self` between `prepend` and
/// `append`.
LogicalResult diff(Call &c) {
  ElementType type = c.typeOf("self");
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
  bool isBool = type == ElementType::BOOL;
  constexpr int64_t maxOrder = 1 << 10;
  if (c.integer("n") > maxOrder)
    return c.fail("differences of order " + Twine(c.integer("n")) +
                  ", more than " + Twine(maxOrder));
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

LogicalResult cumprod(Call &c) {
  auto x = summand(c);
  if (failed(x))
    return failure();
  auto dim = c.dim(c.integer("dim"), x->first.getRank());
  if (failed(dim))
    return failure();
  return c.give(prefixScan(c.emit, x->first, *dim,
                           [&](const Imported &before, const Imported &after) {
                             return c.emit.binary<graph::MulOp>(before, after);
                           }),
                x->second);
}

LogicalResult logCumsumExp(Call &c) {
  Imported x = c.read("self");
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  if (!isFloat(c.typeOf("self")))
    return c.fail("logarithms of " + longNameOf(c.typeOf("self")) +
                  "; convert it to float32");
  return c.give(prefixScan(c.emit, x, *dim,
                           [&](const Imported &before, const Imported &after) {
                             return logOfSum(c.emit, before, after);
                           }),
                c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     cumsum},
    {"cumsum_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> "
     "Tensor(a!)",
     cumsum},
    {"diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, "
     "Tensor? append=None) -> Tensor",
     diff},
    {"cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     cumprod},
    {"cumprod_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> "
     "Tensor(a!)",
     cumprod},
    {"logcumsumexp(Tensor self, int dim) -> Tensor", logCumsumExp},
};

} // namespace

ArrayRef<OperatorRow> getCumulativeRows() { return rows; }

} // namespace polyrank::frontends::aten
