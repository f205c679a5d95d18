// Import of attention and of rotary positions.

#include "frontends/emit/Attention.h"
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
  auto result = attentionOf(
      n.emit, query, key, value, n.has(3) ? n.operand(3) : Imported(),
      n.attribute("scale") ? std::optional<double>(n.getFloat("scale", 0))
                           : std::nullopt,
      n.getInt("is_causal", 0) != 0);
  if (failed(result))
    return failure();
  n.result(0, isFlat ? mergeHeads(n, *result) : *result);
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
