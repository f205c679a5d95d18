// Imports ops that onnxruntime's optimizer fuses: activations with a bias, and
// norms of sums, according to their schemas in the domain com.microsoft.

#include "frontends/onnx/FusedOps.h"
#include "frontends/emit/Indices.h"
#include "frontends/emit/Normalization.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// x + operand `i`, broadcast over x; x if the operand is not given.
FailureOr<Imported> plus(NodeImporter &n, const Imported &x, size_t i) {
  if (!n.has(i))
    return x;
  auto common = broadcastShapes(x.getShape(), n.operand(i).getShape());
  if (failed(common) || *common != x.getShape())
    return n.fail("its operand " + Twine(i) + " of " +
                  toString(n.operand(i).getShape()) + " does not fit " +
                  toString(x.getShape()));
  return n.emit.binaryOver<graph::AddOp>(x, n.operand(i));
}

template <graph::GeluForm form>
LogicalResult gelu(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto x = plus(n, n.operand(0), 1);
  if (failed(x))
    return failure();
  n.result(0, n.emit.unary<graph::GeluOp>(*x, form));
  return success();
}

/// x * sigmoid(alpha * x).
LogicalResult quickGelu(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  Imported scaled = n.emit.binaryOver<graph::MulOp>(
      x, n.emit.scalar(x.getElementType(), n.getFloat("alpha", 1.702)));
  n.result(0, n.emit.binary<graph::MulOp>(
                  x, n.emit.unary<graph::SigmoidOp>(scaled)));
  return success();
}

/// Splits x + bias into halves: the first times the Gelu of the second.
LogicalResult biasSplitGelu(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto x = plus(n, n.operand(0), 1);
  if (failed(x))
    return failure();
  int64_t last = x->getRank() - 1, width = x->getShape().back();
  if (width % 2 != 0)
    return n.fail("halves of " + toString(x->getShape()));
  Imported second = n.emit.unary<graph::GeluOp>(
      n.emit.slice(*x, last, width / 2, width), graph::GeluForm::Erf);
  n.result(0, n.emit.binary<graph::MulOp>(n.emit.slice(*x, last, 0, width / 2),
                                          second));
  return success();
}

/// x + bias + skip, with a bias for each element of the last dim.
LogicalResult biasAdd(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  auto sum = plus(n, n.operand(0), 1);
  if (succeeded(sum))
    sum = plus(n, *sum, 2);
  if (failed(sum))
    return failure();
  n.result(0, *sum);
  return success();
}

/// The channels are the last dim, or dim 1. If `activation` is 1, x *
/// sigmoid(x) of the result.
LogicalResult groupNorm(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  Imported x = n.operand(0);
  int64_t rank = x.getRank(), groups = n.getInt("groups", 0),
          activation = n.getInt("activation", 0);
  if (rank < 2 || groups < 1 || activation < 0 || activation > 1)
    return n.fail("GroupNorm of " + toString(x.getShape()) + " in " +
                  Twine(groups) + " groups with activation " +
                  Twine(activation));
  bool isLast = n.getInt("channels_last", 1) != 0;
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(rank)), back;
  if (isLast) {
    back = order;
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
    std::rotate(back.begin() + 1, back.begin() + 2, back.end());
    x = n.emit.transpose(x, order);
  }
  auto result = normalizeGroups(n.emit, x, groups, n.operand(1), n.operand(2),
                                false, n.getFloat("epsilon", 1e-5));
  if (failed(result))
    return failure();
  if (isLast)
    result = n.emit.transpose(*result, back);
  if (activation == 1)
    result = n.emit.binary<graph::MulOp>(
        *result, n.emit.unary<graph::SigmoidOp>(*result));
  n.result(0, *result);
  return success();
}

/// The layer norm of x over its last dim. A `bias` may be empty.
FailureOr<SmallVector<Imported>> normalized(NodeImporter &n, const Imported &x,
                                            const Imported &scale,
                                            const Imported &bias) {
  Shape width = {x.getShape().back()};
  auto fits = [&](const Imported &y) { return !y || y.getShape() == width; };
  if (!fits(scale) || !fits(bias))
    return n.fail("its scale or bias does not fit " + toString(width));
  Imported zero = n.emit.broadcast(n.emit.scalar(x.getElementType(), 0), width,
                                   !x.isConstant());
  return n.emit.emit({x, scale, bias ? bias : zero},
                     [&](OpBuilder &b, ValueRange v) -> Operation * {
                       return graph::LayerNormOp::create(
                           b, n.emit.getLocation(), v[0], v[1], v[2],
                           n.getFloat("epsilon", 1e-12));
                     });
}

/// The norm of input + skip + bias, and the sum itself as another result.
template <bool simplified>
LogicalResult skipNormalization(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  if (n.operand(0).getRank() < 1 || n.wants(1) || n.wants(2))
    return n.fail("mean and deviation as results; compute them in the model");
  auto sum = plus(n, n.operand(0), 1);
  if (succeeded(sum))
    sum = plus(n, *sum, simplified ? 3 : 4);
  if (failed(sum))
    return failure();
  n.result(3, *sum);
  if (!simplified) {
    auto results =
        normalized(n, *sum, n.operand(2), n.has(3) ? n.operand(3) : Imported());
    if (failed(results))
      return failure();
    n.result(0, (*results)[0]);
    return success();
  }
  if (n.operand(2).getShape() != Shape{sum->getShape().back()})
    return n.fail("its scale of " + toString(n.operand(2).getShape()) +
                  " does not fit " + toString(sum->getShape()));
  n.result(0, n.emit.binary<graph::RmsNormOp>(*sum, n.operand(2),
                                              n.getFloat("epsilon", 1e-12)));
  return success();
}

/// The layer norm of the sum of rows of three tables: of words, of positions
/// and of segments; and the number of tokens in the mask.
LogicalResult embedLayerNormalization(NodeImporter &n) {
  for (size_t i : {0, 2, 3, 5, 6})
    if (!n.has(i))
      return n.fail("operand " + Twine(i) + " is missing");
  const Imported &ids = n.operand(0), &places = n.operand(3);
  if (ids.getRank() != 2 || n.operand(2).getRank() != 2 ||
      places.getRank() != 2)
    return n.fail("ids of " + toString(ids.getShape()) + " into tables of " +
                  toString(n.operand(2).getShape()) + " and " +
                  toString(places.getShape()));
  auto rows = [&](size_t table, const Imported &indices) {
    n.emit.limitIndices(indices, n.operand(table).getShape()[0]);
    return n.emit.binary<graph::GatherOp>(n.operand(table), indices,
                                          int64_t(0));
  };
  Imported sum = rows(2, ids);
  int64_t length = ids.getShape()[1];
  if (!n.has(8) && length > places.getShape()[0])
    return n.fail("a sequence of " + Twine(length) + " for " +
                  Twine(places.getShape()[0]) + " places");
  Imported placed =
      n.has(8) ? rows(3, n.operand(8)) : n.emit.slice(places, 0, 0, length);
  auto add = [&](const Imported &more) {
    auto common = broadcastShapes(sum.getShape(), more.getShape());
    if (failed(common) || *common != sum.getShape())
      return n.fail("rows of " + toString(more.getShape()) + " and of " +
                    toString(sum.getShape()));
    sum = n.emit.binaryOver<graph::AddOp>(sum, more);
    return success();
  };
  if (failed(add(placed)))
    return failure();
  if (n.has(1) != n.has(4))
    return n.fail("segments without a table of them, or a table alone");
  if (n.has(1) && failed(add(rows(4, n.operand(1)))))
    return failure();
  auto results = normalized(n, sum, n.operand(5), n.operand(6));
  if (failed(results))
    return failure();
  n.result(0, (*results)[0]);
  n.result(2, sum);
  if (!n.wants(1))
    return success();
  Type index = n.emit.getBuilder().getI32Type();
  n.result(1, n.has(7) ? n.emit.reduce(sharding::ReductionKind::Sum,
                                       n.emit.convert(n.operand(7), index), {1})
                       : n.emit.broadcast(n.emit.scalar(index, 0),
                                          {ids.getShape()[0]}, false));
  return success();
}

constexpr StringRef domain = "com.microsoft";
const OpRow rows[] = {
    {domain, "Gelu", 1, gelu<graph::GeluForm::Erf>},
    {domain, "BiasGelu", 1, gelu<graph::GeluForm::Erf>},
    {domain, "FastGelu", 1, gelu<graph::GeluForm::Tanh>},
    {domain, "QuickGelu", 1, quickGelu},
    {domain, "BiasSplitGelu", 1, biasSplitGelu},
    {domain, "BiasAdd", 1, biasAdd},
    {domain, "GroupNorm", 1, groupNorm},
    {domain, "SkipLayerNormalization", 1, skipNormalization<false>},
    {domain, "SkipSimplifiedLayerNormalization", 1, skipNormalization<true>},
    {domain, "EmbedLayerNormalization", 1, embedLayerNormalization},
};

} // namespace

ArrayRef<OpRow> getFusedRows() { return rows; }

} // namespace polyrank::frontends::onnx
