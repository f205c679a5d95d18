// Import of attention and of rotary positions.

#include "frontends/emit/Attention.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

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
    query = splitHeads(n.emit, query, heads);
    key = splitHeads(n.emit, key, groups);
    value = splitHeads(n.emit, value, groups);
  }
  if (query.getRank() != 4 || key.getRank() != 4 || value.getRank() != 4)
    return n.fail("Attention of operands that have neither 4 nor 3 dims");
  if (n.has(6) || n.wants(3))
    return n.fail("Attention with lengths of keys or with the scores as "
                  "result; in the model write the attention with matmul and "
                  "softmax");
  if (n.has(4) != n.has(5))
    return n.fail("Attention with a cache of keys or values alone");
  int64_t past = 0;
  if (n.has(4)) {
    auto append = [&](const Imported &cache, Imported &x) {
      Shape before = cache.getShape(), after = x.getShape();
      if (before.size() == 4)
        before[2] = after[2] = 0;
      if (before != after)
        return n.fail("a cache of " + toString(cache.getShape()) + " for " +
                      toString(x.getShape()));
      x = n.emit.concat({cache, x}, 2);
      return success();
    };
    if (failed(append(n.operand(4), key)) ||
        failed(append(n.operand(5), value)))
      return failure();
    past = n.operand(4).getShape()[2];
  }
  n.result(1, key);
  n.result(2, value);
  Imported mask = n.has(3) ? n.operand(3) : Imported();
  bool isCausal = n.getInt("is_causal", 0) != 0;
  double softcap = n.getFloat("softcap", 0);
  // What opset 23 said of an order of soft cap and mask was corrected later.
  if (softcap != 0 && mask)
    return n.fail(
        "Attention with both a soft cap and a mask, of which ONNX has "
        "two orders; in the model write the attention with matmul "
        "and softmax");
  if (isCausal && past > 0) {
    Imported visible =
        visibleBefore(n.emit, query.getShape()[2], key.getShape()[2], past);
    if (mask && !mask.getElementType().isInteger(1))
      return n.fail("Attention with a cache, is_causal and a mask of floats; "
                    "put what is_causal says into the mask");
    if (mask) {
      auto both = n.emit.broadcastAll({mask, visible});
      if (failed(both))
        return n.fail("its mask of " + toString(mask.getShape()) +
                      " does not fit " + toString(visible.getShape()));
      mask = n.emit.binary<graph::AndOp>((*both)[0], (*both)[1]);
    } else {
      mask = visible;
    }
    isCausal = false;
  }
  auto result = attentionOf(n.emit, query, key, value, mask,
                            n.attribute("scale")
                                ? std::optional<double>(n.getFloat("scale", 0))
                                : std::nullopt,
                            isCausal, nullptr, softcap);
  if (failed(result))
    return failure();
  n.result(0, isFlat ? mergeHeads(n.emit, *result) : *result);
  return success();
}

/// See `turnPairs`. cos and sin have a row per position, chosen by the
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
    x = splitHeads(n.emit, x, heads);
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
  Imported result =
      turnPairs(n.emit, x, *cos, *sin, width, n.getInt("interleaved", 0) != 0);
  n.result(0, isFlat ? mergeHeads(n.emit, result) : result);
  return success();
}

const OpRow rows[] = {
    {"", "Attention", 23, attention},
    {"", "RotaryEmbedding", 23, rotaryEmbedding},
};

} // namespace

ArrayRef<OpRow> getAttentionRows() { return rows; }

} // namespace polyrank::frontends::onnx
