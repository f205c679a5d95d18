// Matrix products.

#include "frontends/aten/Call.h"
#include "frontends/emit/Einsum.h"
#include "frontends/emit/Products.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// The common type of two float tensors; PyTorch requires equal ones.
FailureOr<ElementType> floatType(Call &c, StringRef a, StringRef b) {
  ElementType left = c.typeOf(a), right = c.typeOf(b);
  if (!isFloat(left) || !isFloat(right))
    return c.fail("a product of integers; multiply floats (x.float())");
  return promoteTypes(left, right);
}

LogicalResult matmulOf(Call &c, StringRef a, StringRef b) {
  auto type = floatType(c, a, b);
  if (failed(type))
    return failure();
  return c.give(matrixProduct(c.emit, c.as(c[a], *type), c.as(c[b], *type)),
                *type);
}

LogicalResult needRanks(Call &c, StringRef a, int64_t aRank, StringRef b,
                        int64_t bRank) {
  const TensorRef &x = c.tensor(a), &y = c.tensor(b);
  if (x->getRank() == aRank && y->getRank() == bRank)
    return success();
  return c.fail(toString(x->getShape()) + " and " + toString(y->getShape()) +
                ", of which it takes " + Twine(aRank) + " and " + Twine(bRank) +
                " dims");
}

LogicalResult matmul(Call &c) { return matmulOf(c, "self", "other"); }
LogicalResult mm(Call &c) {
  return failed(needRanks(c, "self", 2, "mat2", 2))
             ? failure()
             : matmulOf(c, "self", "mat2");
}
LogicalResult bmm(Call &c) {
  return failed(needRanks(c, "self", 3, "mat2", 3))
             ? failure()
             : matmulOf(c, "self", "mat2");
}
LogicalResult mv(Call &c) {
  return failed(needRanks(c, "self", 2, "vec", 1)) ? failure()
                                                   : matmulOf(c, "self", "vec");
}
LogicalResult dot(Call &c) {
  return failed(needRanks(c, "self", 1, "tensor", 1))
             ? failure()
             : matmulOf(c, "self", "tensor");
}

LogicalResult vdot(Call &c) {
  return failed(needRanks(c, "self", 1, "other", 1))
             ? failure()
             : matmulOf(c, "self", "other");
}

LogicalResult outer(Call &c) {
  if (failed(needRanks(c, "self", 1, "vec2", 1)))
    return failure();
  auto both =
      c.promote({Value(Tensor::viewOf(c.emit, c.tensor("self"),
                                      {View::Kind::Reshape,
                                       {c.tensor("self")->getShape()[0], 1}})),
                 c["vec2"]});
  if (failed(both))
    return failure();
  return c.give(
      c.emit.binary<graph::MulOp>(both->operands[0], both->operands[1]),
      both->type);
}

/// beta * x + alpha * product, where x broadcasts.
LogicalResult addTo(Call &c, StringRef a, StringRef b, int64_t rank) {
  if (failed(needRanks(c, a, rank, b, rank == 2 || rank == 3 ? rank : 1)))
    return failure();
  auto type = floatType(c, a, b);
  if (failed(type))
    return failure();
  auto product = matrixProduct(c.emit, c.as(c[a], *type), c.as(c[b], *type));
  if (failed(product))
    return failure();
  auto scaled = [&](const Imported &x, double factor) {
    return factor == 1 ? x
                       : c.emit.binaryOver<graph::MulOp>(
                             x, c.emit.scalar(x.getElementType(), factor));
  };
  Imported result = scaled(*product, c.number("alpha"));
  double beta = c.number("beta");
  Imported x = c.as(c["self"], *type);
  auto common = broadcastShapes(x.getShape(), result.getShape());
  if (failed(common) || *common != result.getShape())
    return c.fail(toString(x.getShape()) + " added to " +
                  toString(result.getShape()));
  if (beta != 0)
    result = c.emit.binaryOver<graph::AddOp>(result, scaled(x, beta));
  return c.give(result, *type);
}

LogicalResult addmm(Call &c) { return addTo(c, "mat1", "mat2", 2); }
LogicalResult baddbmm(Call &c) { return addTo(c, "batch1", "batch2", 3); }

/// x [.., in] with weight [out, in] and bias [out].
LogicalResult linear(Call &c) {
  auto type = floatType(c, "input", "weight");
  if (failed(type))
    return failure();
  Imported x = c.as(c["input"], *type), weight = c.as(c["weight"], *type);
  if (x.getRank() < 1 || weight.getRank() < 1 || weight.getRank() > 2 ||
      x.getShape().back() != weight.getShape().back())
    return c.fail(toString(x.getShape()) + " with a weight of " +
                  toString(weight.getShape()));
  int64_t contracted = weight.getRank() - 1, inner = x.getRank() - 1;
  if (contracted == 1)
    weight = withoutTranspose(weight, contracted);
  if (inner == 1)
    x = withoutTranspose(x, inner);
  Imported result = productOf(c.emit, x, weight, {}, {}, inner, contracted);
  if (c.has("bias")) {
    Imported bias = c.as(c["bias"], *type);
    auto common = broadcastShapes(bias.getShape(), result.getShape());
    if (failed(common) || *common != result.getShape())
      return c.fail("its bias of " + toString(bias.getShape()) +
                    " does not fit " + toString(result.getShape()));
    result = c.emit.binaryOver<graph::AddOp>(result, bias);
  }
  return c.give(result, *type);
}

LogicalResult einsum(Call &c) {
  SmallVector<Imported> operands;
  std::optional<ElementType> type;
  for (const TensorRef &each : c.tensors("tensors"))
    type = type ? promoteTypes(*type, each->getType()) : each->getType();
  if (!type)
    return c.fail("it has no operands");
  for (const TensorRef &each : c.tensors("tensors"))
    operands.push_back(c.as(Value(each), *type));
  return c.give(frontends::einsum(c.emit, c.text("equation").str(), operands),
                *type);
}

/// A grouped GEMM: rows times a matrix per group, with the groups in `offs`.
LogicalResult groupedOf(Call &c, StringRef a, StringRef b) {
  if (c.tensor(a)->getRank() != 2 || c.tensor(b)->getRank() != 3)
    return c.fail(toString(c.tensor(a)->getShape()) + " and " +
                  toString(c.tensor(b)->getShape()) +
                  " in groups; of rows [rows, in] and matrices [groups, in, "
                  "out] it is supported");
  auto type = floatType(c, a, b);
  if (failed(type))
    return failure();
  Imported rows = c.as(c[a], *type), matrices = c.as(c[b], *type),
           ends = c.read("offs");
  if (rows.getShape()[1] != matrices.getShape()[1] || ends.getRank() != 1 ||
      ends.getShape()[0] != matrices.getShape()[0])
    return c.fail(toString(rows.getShape()) + " and " +
                  toString(matrices.getShape()) + " with " +
                  toString(ends.getShape()) + " ends of groups");
  return c.give(groupedProduct(c.emit, rows, matrices, ends), *type);
}

LogicalResult groupedMm(Call &c) {
  if (c.has("bias"))
    return c.fail("a bias; add it to the result");
  if (c.has("out_dtype") &&
      supportedType(c.integer("out_dtype")) != c.typeOf("self"))
    return c.fail("another type for its result (out_dtype); convert that");
  return c.has("offs") ? groupedOf(c, "self", "mat2") : bmm(c);
}

/// The replacement that transformers uses if PyTorch's kernel is missing.
LogicalResult groupedMmFallback(Call &c) {
  return groupedOf(c, "input", "weight");
}

/// x1 [.., in1], weight [out, in1, in2] and x2 [.., in2].
LogicalResult bilinear(Call &c) {
  auto type = floatType(c, "input1", "weight");
  if (failed(type))
    return failure();
  auto result =
      frontends::einsum(c.emit, "...i,oij,...j->...o",
                        {c.as(c["input1"], *type), c.as(c["weight"], *type),
                         c.as(c["input2"], *type)});
  if (failed(result))
    return failure();
  Imported sum = *result;
  if (c.has("bias"))
    sum = c.emit.binaryOver<graph::AddOp>(sum, c.as(c["bias"], *type));
  return c.give(sum, *type);
}

const OperatorRow rows[] = {
    {"matmul(Tensor self, Tensor other) -> Tensor", matmul},
    {"mm(Tensor self, Tensor mat2) -> Tensor", mm},
    {"bmm(Tensor self, Tensor mat2) -> Tensor", bmm},
    {"mv(Tensor self, Tensor vec) -> Tensor", mv},
    {"dot(Tensor self, Tensor tensor) -> Tensor", dot},
    {"vdot(Tensor self, Tensor other) -> Tensor", vdot},
    {"outer(Tensor self, Tensor vec2) -> Tensor", outer},
    {"ger(Tensor self, Tensor vec2) -> Tensor", outer},
    {"_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? "
     "bias=None, ScalarType? out_dtype=None) -> Tensor",
     groupedMm},
    {"transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor "
     "offs) -> Tensor",
     groupedMmFallback},
    {"addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, "
     "Scalar alpha=1) -> Tensor",
     addmm},
    {"addmm_(Tensor(a!) self, Tensor mat1, Tensor mat2, *, Scalar beta=1, "
     "Scalar alpha=1) -> Tensor(a!)",
     addmm},
    {"baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar "
     "beta=1, Scalar alpha=1) -> Tensor",
     baddbmm},
    {"baddbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar "
     "beta=1, Scalar alpha=1) -> Tensor(a!)",
     baddbmm},
    {"linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
     linear},
    {"einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> "
     "Tensor",
     einsum},
    {"bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? "
     "bias=None) -> Tensor",
     bilinear},
};

} // namespace

ArrayRef<OperatorRow> getProductRows() { return rows; }

} // namespace polyrank::frontends::aten
