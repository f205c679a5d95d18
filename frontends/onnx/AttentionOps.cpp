// Import of attention and of rotary positions.

#include <limits>

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// [batch, length, heads * width] as [batch, heads, length, width].
Imported splitHeads(NodeImporter &n, const Imported &x, int64_t heads) {
  Shape shape = x.getShape();
  return n.emit.transpose(
      n.emit.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}),
      {0, 2, 1, 3});
}

Imported mergeHeads(NodeImporter &n, const Imported &x) {
  Shape shape = x.getShape();
  return n.emit.reshape(n.emit.transpose(x, {0, 2, 1, 3}),
                        {shape[0], shape[2], shape[1] * shape[3]});
}

/// Each head of key and value serves a group of query heads.
Imported repeatHeads(NodeImporter &n, const Imported &x, int64_t heads) {
  Shape s = x.getShape();
  if (s[1] == heads)
    return x;
  Imported apart = n.emit.reshape(x, {s[0], s[1], 1, s[2], s[3]});
  Imported repeated =
      n.emit.broadcast(apart, {s[0], s[1], heads / s[1], s[2], s[3]}, false);
  return n.emit.reshape(repeated, {s[0], heads, s[2], s[3]});
}

/// A mask that all batches and heads share has only the last two dims.
Imported fitMask(NodeImporter &n, Imported mask, const Shape &whole) {
  Shape shape = mask.getShape();
  bool shared = true;
  if (mask.isConstant()) {
    auto varying = varyingDims(*mask.constant);
    shared = llvm::all_of(
        varying, [&](int64_t dim) { return dim >= mask.getRank() - 2; });
    for (int64_t dim = 0; shared && dim < mask.getRank() - 2; ++dim)
      mask = n.emit.slice(mask, dim, 0, 1);
  } else {
    shared = graph::numElements(ArrayRef<int64_t>(shape).drop_back(
                 std::min<size_t>(2, shape.size()))) == 1;
  }
  Shape kept = mask.getShape();
  if (shared && kept.size() > 2)
    mask = n.emit.reshape(mask, ArrayRef<int64_t>(kept).take_back(2));
  return n.emit.broadcast(
      mask, shared ? ArrayRef<int64_t>(whole).take_back(2) : whole, false);
}

/// True where a key does not come behind the query, both counted from the
/// first.
Imported causalMask(NodeImporter &n, ArrayRef<int64_t> shape) {
  IntegerType index = n.emit.getBuilder().getI64Type();
  return n.emit.binary<graph::CompareOp>(n.emit.iota(shape, 1, index),
                                         n.emit.iota(shape, 0, index),
                                         graph::Comparison::LE);
}

/// softmax(query key' * scale + mask) value, where the mask is added.
Imported attentionInParts(NodeImporter &n, const Imported &query,
                          const Imported &key, const Imported &value,
                          Imported mask, double scale, bool causal) {
  Type type = query.getElementType();
  auto dot = [&](const Imported &a, const Imported &b, int64_t contracted) {
    return n.emit.binary<graph::MatmulOp>(
        a, b, ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{0, 1},
        ArrayRef<int64_t>(int64_t(3)), ArrayRef<int64_t>(contracted));
  };
  Imported scores = n.emit.binaryOver<graph::AddOp>(
      n.emit.binaryOver<graph::MulOp>(dot(query, key, 3),
                                      n.emit.scalar(type, scale)),
      mask);
  if (causal) {
    Imported visible =
        causalMask(n, ArrayRef<int64_t>(scores.getShape()).take_back(2));
    auto repeated = [&](const Imported &x) {
      return n.emit.broadcast(x, scores.getShape(), !scores.isConstant());
    };
    scores =
        n.emit.select(repeated(visible), scores,
                      repeated(n.emit.scalar(
                          type, -std::numeric_limits<double>::infinity())));
  }
  return dot(n.emit.unary<graph::SoftmaxOp>(scores, int64_t(3)), value, 2);
}

/// query [batch, heads, queries, width], key and value with as many heads or a
/// divisor of them; or the heads side by side in the last of three dims. A mask
/// is true where a key is visible, or is added to the scores.
LogicalResult attention(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  Imported query = n.operand(0), key = n.operand(1), value = n.operand(2);
  bool isFlat = query.getRank() == 3;
  if (isFlat && key.getRank() == 3 && value.getRank() == 3) {
    int64_t heads = n.getInt("q_num_heads", 0),
            groups = n.getInt("kv_num_heads", 0);
    if (heads < 1 || groups < 1 || query.getShape()[2] % heads != 0 ||
        key.getShape()[2] % groups != 0 || value.getShape()[2] % groups != 0)
      return n.fail("Attention of three dims with " + Twine(heads) + " and " +
                    Twine(groups) + " heads");
    query = splitHeads(n, query, heads);
    key = splitHeads(n, key, groups);
    value = splitHeads(n, value, groups);
  }
  if (query.getRank() != 4 || key.getRank() != 4 || value.getRank() != 4)
    return n.fail("Attention of operands that have neither 4 nor 3 dims");
  if (n.has(4) || n.has(5) || n.has(6) || n.wants(1) || n.wants(2) ||
      n.wants(3) || n.getFloat("softcap", 0) != 0)
    return n.fail("Attention with a cache, a soft cap or the scores as result; "
                  "export with use_cache=False, or in the model write the "
                  "attention with matmul and softmax");
  Shape q = query.getShape(), k = key.getShape(), v = value.getShape();
  if (k[1] == 0 || q[1] % k[1] != 0 || v[1] != k[1] || q[0] != k[0] ||
      v[0] != k[0] || q[3] != k[3] || v[2] != k[2])
    return n.fail("Attention of " + toString(q) + ", " + toString(k) + " and " +
                  toString(v));
  key = repeatHeads(n, key, q[1]);
  value = repeatHeads(n, value, q[1]);
  double scale = n.getFloat("scale", 1 / std::sqrt(static_cast<double>(q[3])));
  bool causal = n.getInt("is_causal", 0) != 0;
  SmallVector<Imported> operands = {query, key, value};
  Imported result, mask = n.has(3) ? n.operand(3) : Imported();
  Shape whole = {q[0], q[1], q[2], k[2]};
  // With fewer queries than keys the op counts from the last of both.
  if (causal && q[2] != k[2] && (!mask || mask.getElementType().isInteger(1))) {
    Imported visible = causalMask(n, {q[2], k[2]});
    mask = mask
               ? n.emit.binaryOver<graph::AndOp>(
                     n.emit.broadcast(mask, whole, !mask.isConstant()), visible)
               : visible;
    causal = false;
  }
  if (mask) {
    auto common = broadcastShapes(mask.getShape(), whole);
    if (failed(common) || *common != whole)
      return n.fail("its mask of " + toString(mask.getShape()) +
                    " does not fit " + toString(whole));
    if (mask.getElementType().isInteger(1))
      operands.push_back(fitMask(n, mask, whole));
    else
      result = attentionInParts(n, query, key, value, mask, scale, causal);
  }
  if (!result)
    result = n.emit.emit(
        operands, [&](OpBuilder &b, ValueRange values) -> Operation * {
          return graph::AttentionOp::create(
              b, n.emit.getLocation(), values[0], values[1], values[2],
              values.size() > 3 ? values[3] : Value(), scale, causal);
        })[0];
  n.result(0, isFlat ? mergeHeads(n, result) : result);
  return success();
}

/// Turns pairs of elements of the last dim: its two halves, or neighbours where
/// they are interleaved. cos and sin have a row per position, chosen by the
/// position ids where these are given, else a row per place in the sequence.
LogicalResult rotaryEmbedding(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  Imported x = n.operand(0);
  bool isFlat = x.getRank() == 3;
  if (isFlat) {
    int64_t heads = n.getInt("num_heads", 0);
    if (heads < 1 || x.getShape()[2] % heads != 0)
      return n.fail("RotaryEmbedding of " + toString(x.getShape()) + " with " +
                    Twine(heads) + " heads");
    x = splitHeads(n, x, heads);
  }
  if (x.getRank() != 4)
    return n.fail("RotaryEmbedding of " + toString(x.getShape()));
  Shape shape = x.getShape();
  int64_t width = n.getInt("rotary_embedding_dim", 0);
  width = width == 0 ? shape[3] : width;
  int64_t half = width / 2;
  if (width < 2 || width % 2 != 0 || width > shape[3])
    return n.fail("RotaryEmbedding of " + Twine(width) + " of " +
                  Twine(shape[3]) + " elements");
  auto table = [&](size_t i) -> FailureOr<Imported> {
    Imported rows = n.operand(i);
    if (n.has(3) && rows.getRank() == 2)
      rows = n.emit.binary<graph::GatherOp>(rows, n.operand(3), int64_t(0));
    Shape wanted = {shape[0], shape[2], half};
    if (rows.getRank() == 3 && rows.getShape()[0] == 1)
      wanted[0] = 1;
    if (rows.getShape() != wanted)
      return n.fail("its table of " + toString(rows.getShape()) +
                    " does not fit " + toString(wanted));
    return n.emit.reshape(rows, {wanted[0], 1, shape[2], half});
  };
  auto cos = table(1), sin = table(2);
  if (failed(cos) || failed(sin))
    return failure();
  bool interleaved = n.getInt("interleaved", 0) != 0;
  auto part = [&](int64_t i) {
    return interleaved ? n.emit.slice(x, 3, i, width - 1 + i, 2)
                       : n.emit.slice(x, 3, i * half, (i + 1) * half);
  };
  Imported first = part(0), second = part(1);
  auto times = [&](const Imported &a, const Imported &b) {
    return n.emit.binaryOver<graph::MulOp>(a, b);
  };
  SmallVector<Imported> turned = {
      n.emit.binary<graph::SubOp>(times(first, *cos), times(second, *sin)),
      n.emit.binary<graph::AddOp>(times(first, *sin), times(second, *cos))};
  Imported result;
  if (interleaved) {
    for (Imported &each : turned)
      each = n.emit.reshape(each, {shape[0], shape[1], shape[2], half, 1});
    result = n.emit.reshape(n.emit.concat(turned, 4),
                            {shape[0], shape[1], shape[2], width});
  } else {
    result = n.emit.concat(turned, 3);
  }
  if (width < shape[3])
    result = n.emit.concat({result, n.emit.slice(x, 3, width, shape[3])}, 3);
  n.result(0, isFlat ? mergeHeads(n, result) : result);
  return success();
}

const OpRow rows[] = {
    {"", "Attention", 23, attention},
    {"", "RotaryEmbedding", 23, rotaryEmbedding},
};

} // namespace

ArrayRef<OpRow> getAttentionRows() { return rows; }

} // namespace polyrank::frontends::onnx
