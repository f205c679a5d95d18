// Scaled dot-product attention.

#include "frontends/emit/Attention.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace polyrank::frontends {

Imported repeatHeads(Emitter &emit, const Imported &x, int64_t heads) {
  Shape s = x.getShape();
  if (s[1] == heads)
    return x;
  Imported apart = emit.reshape(x, {s[0], s[1], 1, s[2], s[3]});
  Imported repeated =
      emit.broadcast(apart, {s[0], s[1], heads / s[1], s[2], s[3]}, false);
  return emit.reshape(repeated, {s[0], heads, s[2], s[3]});
}

Imported splitHeads(Emitter &emit, const Imported &x, int64_t heads) {
  Shape shape = x.getShape();
  return emit.transpose(
      emit.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}),
      {0, 2, 1, 3});
}

Imported mergeHeads(Emitter &emit, const Imported &x) {
  Shape shape = x.getShape();
  return emit.reshape(emit.transpose(x, {0, 2, 1, 3}),
                      {shape[0], shape[2], shape[1] * shape[3]});
}

Imported turnPairs(Emitter &emit, const Imported &x, const Imported &cos,
                   const Imported &sin, int64_t width, bool interleaved) {
  Shape shape = x.getShape();
  int64_t half = width / 2;
  auto part = [&](int64_t i) {
    return interleaved ? emit.slice(x, 3, i, width - 1 + i, 2)
                       : emit.slice(x, 3, i * half, (i + 1) * half);
  };
  Imported first = part(0), second = part(1);
  auto times = [&](const Imported &a, const Imported &b) {
    return emit.binaryOver<graph::MulOp>(a, b);
  };
  SmallVector<Imported> turned = {
      emit.binary<graph::SubOp>(times(first, cos), times(second, sin)),
      emit.binary<graph::AddOp>(times(first, sin), times(second, cos))};
  Imported result;
  if (interleaved) {
    for (Imported &each : turned)
      each = emit.reshape(each, {shape[0], shape[1], shape[2], half, 1});
    result = emit.reshape(emit.concat(turned, 4),
                          {shape[0], shape[1], shape[2], width});
  } else {
    result = emit.concat(turned, 3);
  }
  if (width < shape[3])
    result = emit.concat({result, emit.slice(x, 3, width, shape[3])}, 3);
  return result;
}

/// True where a key is not after the query, both counted from the first.
static Imported causalMask(Emitter &emit, ArrayRef<int64_t> shape) {
  IntegerType index = emit.getBuilder().getI64Type();
  return emit.binary<graph::CompareOp>(emit.iota(shape, 1, index),
                                       emit.iota(shape, 0, index),
                                       graph::Comparison::LE);
}

Imported visibleBefore(Emitter &emit, int64_t queries, int64_t keys,
                       int64_t past, std::optional<int64_t> window) {
  IntegerType index = emit.getBuilder().getI64Type();
  Shape shape = {queries, keys};
  Imported ahead = emit.binary<graph::SubOp>(emit.iota(shape, 1, index),
                                             emit.iota(shape, 0, index));
  auto compared = [&](int64_t limit, graph::Comparison comparison) {
    return emit.binaryOver<graph::CompareOp>(
        ahead, emit.scalar(index, static_cast<double>(limit)), comparison);
  };
  Imported visible = compared(past, graph::Comparison::LE);
  return window ? emit.binary<graph::AndOp>(
                      visible, compared(past - *window, graph::Comparison::GT))
                : visible;
}

/// Attention as separate ops, of which raise-composites makes one. `drop` is
/// applied to the probabilities. With a boolean `mask`, a query that sees no
/// key gives 0, as in PyTorch.
static Imported attentionInParts(Emitter &emit, const Imported &query,
                                 const Imported &key, const Imported &value,
                                 const Imported &mask, double scale,
                                 bool causal,
                                 llvm::function_ref<Imported(Imported)> drop,
                                 double softcap, AttentionScores *kept) {
  Type type = query.getElementType();
  auto dot = [&](const Imported &a, const Imported &b, int64_t contracted) {
    return emit.binary<graph::MatmulOp>(
        a, b, ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{0, 1},
        ArrayRef<int64_t>(int64_t(3)), ArrayRef<int64_t>(contracted));
  };
  Imported scores = emit.binaryOver<graph::MulOp>(dot(query, key, 3),
                                                  emit.scalar(type, scale));
  if (kept)
    kept->products = scores;
  auto repeated = [&](const Imported &x) {
    return emit.broadcast(x, scores.getShape(), !scores.isConstant());
  };
  if (softcap != 0)
    scores = emit.binaryOver<graph::MulOp>(
        emit.unary<graph::TanhOp>(
            emit.binaryOver<graph::DivOp>(scores, emit.scalar(type, softcap))),
        emit.scalar(type, softcap));
  if (kept)
    kept->capped = scores;
  bool isBoolean = mask && mask.getElementType().isInteger(1);
  if (isBoolean) // finite, so that queries without a visible key have a
                 // gradient
    scores =
        emit.select(repeated(mask), scores, repeated(emit.scalar(type, -1e30)));
  else if (mask)
    scores = emit.binaryOver<graph::AddOp>(scores, mask);
  if (causal) {
    Imported visible =
        causalMask(emit, ArrayRef<int64_t>(scores.getShape()).take_back(2));
    scores = emit.select(
        repeated(visible), scores,
        repeated(emit.scalar(type, -std::numeric_limits<double>::infinity())));
  }
  Imported probabilities = emit.unary<graph::SoftmaxOp>(scores, int64_t(3));
  if (isBoolean)
    probabilities = emit.select(repeated(mask), probabilities,
                                repeated(emit.scalar(type, 0)));
  if (kept)
    kept->probabilities = probabilities;
  if (drop)
    probabilities = drop(probabilities);
  return dot(probabilities, value, 2);
}

FailureOr<Imported> attentionOf(Emitter &emit, const Imported &query,
                                Imported key, Imported value, Imported mask,
                                std::optional<double> givenScale, bool causal,
                                llvm::function_ref<Imported(Imported)> drop,
                                double softcap, AttentionScores *scores) {
  Shape q = query.getShape(), k = key.getShape(), v = value.getShape();
  if (k[1] == 0 || q[1] % k[1] != 0 || v[1] != k[1] || q[0] != k[0] ||
      v[0] != k[0] || q[3] != k[3] || v[2] != k[2])
    return emit.fail("attention of " + toString(q) + ", " + toString(k) +
                     " and " + toString(v));
  double scale = givenScale.value_or(1 / std::sqrt(static_cast<double>(q[3])));
  if (mask) {
    Shape whole = {q[0], q[1], q[2], k[2]};
    auto common = broadcastShapes(mask.getShape(), whole);
    if (failed(common) || *common != whole)
      return emit.fail("its mask of " + toString(mask.getShape()) +
                       " does not fit " + toString(whole));
  }
  return attentionInParts(emit, query, repeatHeads(emit, key, q[1]),
                          repeatHeads(emit, value, q[1]), mask, scale, causal,
                          drop, softcap, scores);
}

} // namespace polyrank::frontends
