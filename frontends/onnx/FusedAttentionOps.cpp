// Imports attention ops that onnxruntime's optimizer fuses, according to their
// schemas in the domain com.microsoft.

#include <limits>

#include "frontends/emit/Attention.h"
#include "frontends/emit/Products.h"
#include "frontends/onnx/FusedOps.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using graph::Comparison;

/// What these ops share: query, key and value [batch, heads, length, width],
/// and a bias on their products.
struct Attended {
  Imported query, key, value;
  Imported bias; // added to the products; may be empty
  /// If causal, a query sees no key after it; the cache has `past` keys before
  /// the first query.
  bool isCausal = false;
  int64_t past = 0;
};

std::optional<double> scaleOf(NodeImporter &n) {
  double scale = n.getFloat("scale", 0); // 0 stands for 1 / sqrt(width)
  return scale == 0 ? std::nullopt : std::optional(scale);
}

/// Adds `more` to the bias.
LogicalResult addBias(NodeImporter &n, Imported &bias, const Imported &more) {
  if (!bias) {
    bias = more;
    return success();
  }
  auto both = n.emit.broadcastAll({bias, more});
  if (failed(both))
    return n.fail("its masks of " + toString(bias.getShape()) + " and " +
                  toString(more.getShape()) + " do not fit each other");
  bias = n.emit.binary<graph::AddOp>((*both)[0], (*both)[1]);
  return success();
}

/// 0 where `visible` and `hidden` elsewhere.
Imported biasWhere(NodeImporter &n, const Imported &visible, double hidden) {
  Type type = Float32Type::get(n.emit.getBuilder().getContext());
  auto spread = [&](double value) {
    return n.emit.broadcast(n.emit.scalar(type, value), visible.getShape(),
                            !visible.isConstant());
  };
  return n.emit.select(visible, spread(0), spread(hidden));
}

/// Adds the bias of operand `i`, a mask of keys. It holds the number of visible
/// keys [batch], which come first; or the ends and then the starts of the
/// visible keys [2 * batch]; or integers that are 0 where a key is hidden:
/// [batch, keys] or [batch, queries, keys].
LogicalResult addMask(NodeImporter &n, size_t i, Attended &a) {
  if (!n.has(i))
    return success();
  const Imported &mask = n.operand(i);
  Shape given = mask.getShape();
  int64_t batch = a.query.getShape()[0], queries = a.query.getShape()[2],
          keys = a.key.getShape()[2];
  Type type = mask.getElementType();
  if (!isa<IntegerType>(type))
    return n.fail("a mask of floats; add it to attention_bias");
  Imported visible;
  if (given == Shape{batch} || given == Shape{2 * batch}) {
    Shape shape = {batch, keys};
    Imported place = n.emit.iota(shape, 1, type);
    auto compared = [&](int64_t from, Comparison comparison) {
      Imported limit =
          n.emit.reshape(n.emit.slice(mask, 0, from, from + batch), {batch, 1});
      limit = n.emit.broadcast(limit, shape, !limit.isConstant());
      return n.emit.binary<graph::CompareOp>(place, limit, comparison);
    };
    visible = compared(0, Comparison::LT);
    if (given[0] == 2 * batch)
      visible =
          n.emit.binary<graph::AndOp>(visible, compared(batch, Comparison::GE));
    given = shape;
  } else if (given == Shape{batch, keys} ||
             given == Shape{batch, queries, keys}) {
    visible = n.emit.binaryOver<graph::CompareOp>(mask, n.emit.scalar(type, 0),
                                                  Comparison::NE);
  } else {
    return n.fail("a mask of " + toString(given) + " for " + Twine(batch) +
                  " samples of " + Twine(queries) + " queries and " +
                  Twine(keys) + " keys; give it as [batch, keys]");
  }
  given.insert(given.begin() + 1, given.size() == 2 ? 2 : 1, 1);
  return addBias(n, a.bias,
                 biasWhere(n, n.emit.reshape(visible, given),
                           n.getFloat("mask_filter_value", -10000)));
}

/// Adds a bias [batch or 1, heads or 1, queries, keys].
LogicalResult addGivenBias(NodeImporter &n, size_t i, Attended &a) {
  return n.has(i) ? addBias(n, a.bias, n.operand(i)) : success();
}

/// Prepends the cache in operands `i` and `i + 1` to the keys and values.
LogicalResult addCache(NodeImporter &n, size_t i, Attended &a) {
  if (!n.has(i) && !n.has(i + 1))
    return success();
  for (size_t each : {i, i + 1}) {
    Imported &x = each == i ? a.key : a.value;
    Shape before = n.has(each) ? n.operand(each).getShape() : Shape(),
          after = x.getShape();
    if (before.size() == 4)
      before[2] = after[2];
    if (before != after)
      return n.fail("a cache that does not fit keys and values of " +
                    toString(after));
    x = n.emit.concat({n.operand(each), x}, 2);
  }
  a.past = n.operand(i).getShape()[2];
  return success();
}

LogicalResult giveAttention(NodeImporter &n, Attended a) {
  Imported mask = a.bias;
  bool isCausal = a.isCausal;
  if (isCausal && a.past > 0) {
    Imported visible = visibleBefore(n.emit, a.query.getShape()[2],
                                     a.key.getShape()[2], a.past);
    if (!mask)
      mask = visible;
    else if (failed(
                 addBias(n, mask,
                         biasWhere(n, visible,
                                   -std::numeric_limits<double>::infinity()))))
      return failure();
    isCausal = false;
  }
  auto result = attentionOf(n.emit, a.query, a.key, a.value, mask, scaleOf(n),
                            isCausal, nullptr, n.getFloat("softcap", 0));
  if (failed(result))
    return failure();
  n.result(0, mergeHeads(n.emit, *result));
  return success();
}

/// The sizes of queries, keys and values that are concatenated in a dim of
/// `width`.
FailureOr<SmallVector<int64_t>> partsOf(NodeImporter &n, int64_t width,
                                        int64_t heads) {
  SmallVector<int64_t> sizes(3, width / 3);
  if (const Attribute *given = n.attribute("qkv_hidden_sizes");
      given && !given->ints.empty())
    sizes.assign(given->ints.begin(), given->ints.end());
  bool fits = sizes.size() == 3 && heads > 0 && sizes[0] == sizes[1];
  int64_t sum = 0;
  for (int64_t size : sizes) {
    fits &= size > 0 && heads > 0 && size % heads == 0;
    sum += size;
  }
  if (!fits || sum != width)
    return n.fail("queries, keys and values of " + Twine(heads) +
                  " heads in a dim of " + Twine(width));
  return sizes;
}

/// x [batch, length, hidden] is multiplied with the concatenated weights of
/// queries, keys and values.
LogicalResult attention(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0), &weight = n.operand(1);
  if (x.getRank() != 3 || weight.getRank() != 2)
    return n.fail("Attention of " + toString(x.getShape()) + " and " +
                  toString(weight.getShape()));
  if (n.has(4) || n.has(6) || n.getInt("do_rotary", 0) != 0)
    return n.fail("Attention with a cache or with rotary positions inside; "
                  "export with use_cache=False");
  int64_t heads = n.getInt("num_heads", 0), width = weight.getShape()[1];
  auto sizes = partsOf(n, width, heads);
  if (failed(sizes))
    return failure();
  auto product = matrixProduct(n.emit, x, weight);
  if (failed(product))
    return failure();
  if (n.has(2)) {
    if (n.operand(2).getShape() != Shape{width})
      return n.fail("its bias of " + toString(n.operand(2).getShape()) +
                    " does not fit " + Twine(width));
    product = n.emit.binaryOver<graph::AddOp>(*product, n.operand(2));
  }
  int64_t start = 0;
  auto next = [&](int64_t size) {
    Imported part = n.emit.slice(*product, 2, start, start + size);
    start += size;
    return splitHeads(n.emit, part, heads);
  };
  Attended a;
  a.query = next((*sizes)[0]);
  a.key = next((*sizes)[1]);
  a.value = next((*sizes)[2]);
  a.isCausal = n.getInt("unidirectional", 0) != 0;
  if (failed(addMask(n, 3, a)) || failed(addGivenBias(n, 5, a)))
    return failure();
  if (n.wants(1)) {
    Shape one = a.key.getShape();
    if (one != a.value.getShape())
      return n.fail("a cache of keys and values of different widths");
    one.insert(one.begin(), 1);
    n.result(
        1, n.emit.concat(
               {n.emit.reshape(a.key, one), n.emit.reshape(a.value, one)}, 0));
  }
  return giveAttention(n, std::move(a));
}

/// Queries, keys and values are each [batch, length, heads * width]; or keys
/// and values are [batch, heads, length, width]; or two or three of them are
/// packed in one operand, [batch, length, heads, 2 or 3, width].
LogicalResult multiHeadAttention(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  int64_t heads = n.getInt("num_heads", 0);
  const Imported &query = n.operand(0);
  // Takes one part of a packed operand.
  auto unpack = [&](const Imported &x, int64_t part) {
    Shape shape = x.getShape();
    return n.emit.reshape(n.emit.slice(x, 3, part, part + 1),
                          {shape[0], shape[1], shape[2] * shape[4]});
  };
  auto isPacked = [&](const Imported &x, int64_t parts) {
    Shape shape = x.getShape();
    return shape.size() == 5 && shape[2] == heads && shape[3] == parts;
  };
  SmallVector<Imported> parts;
  if (!n.has(1) && !n.has(2) && isPacked(query, 3))
    parts = {unpack(query, 0), unpack(query, 1), unpack(query, 2)};
  else if (n.has(1) && !n.has(2) && isPacked(n.operand(1), 2))
    parts = {query, unpack(n.operand(1), 0), unpack(n.operand(1), 1)};
  else if (n.has(1) && n.has(2))
    parts = {query, n.operand(1), n.operand(2)};
  else
    return n.fail("MultiHeadAttention of operands that are neither apart nor "
                  "packed behind their heads");
  if (n.has(8) || n.has(9) || n.wants(3))
    return n.fail("MultiHeadAttention with a cache that is written in place, "
                  "or with the scores as result; export with use_cache=False");
  int64_t start = 0;
  SmallVector<Imported> split;
  for (Imported &part : parts) {
    Shape shape = part.getShape();
    bool isSplit = shape.size() == 4 && !split.empty();
    if (!isSplit && (shape.size() != 3 || heads < 1 || shape[2] % heads != 0))
      return n.fail("MultiHeadAttention of " + toString(shape) + " with " +
                    Twine(heads) + " heads");
    if (n.has(3) && !isSplit) {
      Imported bias = n.operand(3);
      if (bias.getRank() != 1 || bias.getShape()[0] < start + shape[2])
        return n.fail("its bias of " + toString(bias.getShape()) +
                      " does not fit");
      part = n.emit.binaryOver<graph::AddOp>(
          part, n.emit.slice(bias, 0, start, start + shape[2]));
      start += shape[2];
    }
    split.push_back(isSplit ? part : splitHeads(n.emit, part, heads));
  }
  Attended a;
  a.query = split[0];
  a.key = split[1];
  a.value = split[2];
  a.isCausal = n.getInt("unidirectional", 0) != 0;
  if (failed(addCache(n, 6, a)) || failed(addMask(n, 4, a)) ||
      failed(addGivenBias(n, 5, a)))
    return failure();
  n.result(1, a.key);
  n.result(2, a.value);
  return giveAttention(n, std::move(a));
}

/// The rows of operand `i`, a table of cosines or sines, at the positions:
/// [batch, 1, length, half].
Imported rowsOf(NodeImporter &n, size_t i, const Imported &positions) {
  Imported rows =
      n.emit.binary<graph::GatherOp>(n.operand(i), positions, int64_t(0));
  Shape shape = rows.getShape();
  return n.emit.reshape(rows, {shape[0], 1, shape[1], shape[2]});
}

/// Queries see the keys before them and their own. There is no cache, so the
/// numbers of tokens (`seqlens_k`) only mark padding, which no real token's
/// query follows.
LogicalResult groupQueryAttention(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  int64_t heads = n.getInt("num_heads", 0),
          groups = n.getInt("kv_num_heads", 0),
          window = n.getInt("local_window_size", -1);
  Shape shape = n.operand(0).getShape();
  bool isPacked = !n.has(1) && !n.has(2);
  int64_t all = isPacked ? heads + 2 * groups : heads;
  if (shape.size() != 3 || heads < 1 || groups < 1 || shape[2] % all != 0)
    return n.fail("GroupQueryAttention of " + toString(shape) + " with " +
                  Twine(heads) + " and " + Twine(groups) + " heads");
  if (n.getInt("smooth_softmax", 0) > 0 || n.has(11) || n.wants(3))
    return n.fail("GroupQueryAttention with a smooth softmax or the scores as "
                  "result");
  if (n.has(3) || n.has(4))
    return n.fail("GroupQueryAttention with a cache, which a model that is "
                  "trained does not have; export with use_cache=False");
  int64_t width = shape[2] / all, length = shape[1];
  auto part = [&](size_t i, int64_t from, int64_t count) {
    return splitHeads(n.emit,
                      isPacked ? n.emit.slice(n.operand(0), 2, from * width,
                                              (from + count) * width)
                               : n.operand(i),
                      count);
  };
  for (size_t i : {1, 2})
    if (!isPacked && (!n.has(i) || n.operand(i).getShape() !=
                                       Shape{shape[0], length, groups * width}))
      return n.fail("its keys or values do not fit queries of " +
                    toString(shape));
  Attended a;
  a.query = part(0, 0, heads);
  a.key = part(1, heads, groups);
  a.value = part(2, heads + groups, groups);
  if (n.getInt("do_rotary", 0) != 0) {
    if (!n.has(7) || !n.has(8))
      return n.fail("do_rotary without tables of cosines and sines");
    Imported positions =
        n.has(9)
            ? n.operand(9)
            : n.emit.iota({1, length}, 1, n.emit.getBuilder().getI64Type());
    int64_t turned = 2 * n.operand(7).getShape().back();
    if (n.operand(7).getRank() != 2 || turned > width ||
        n.operand(8).getShape() != n.operand(7).getShape() ||
        n.operand(7).getShape()[0] < length || positions.getRank() != 2)
      return n.fail("its tables of " + toString(n.operand(7).getShape()) +
                    " do not fit " + toString(shape));
    Imported cos = rowsOf(n, 7, positions), sin = rowsOf(n, 8, positions);
    for (Imported *each : {&a.query, &a.key})
      *each = turnPairs(n.emit, *each, cos, sin, turned,
                        n.getInt("rotary_interleaved", 0) != 0);
  }
  n.result(1, a.key);
  n.result(2, a.value);
  a.isCausal = true;
  if (window >= 0 &&
      failed(
          addBias(n, a.bias,
                  biasWhere(n, visibleBefore(n.emit, length, length, 0, window),
                            -std::numeric_limits<double>::infinity()))))
    return failure();
  if (failed(addGivenBias(n, 10, a)))
    return failure();
  return giveAttention(n, std::move(a));
}

/// Like ONNX's own op, but the positions come before the tables, and are given
/// for all tokens or for the first one.
LogicalResult rotaryEmbedding(NodeImporter &n) {
  if (failed(n.need(4)))
    return failure();
  Imported x = n.operand(0), positions = n.operand(1);
  const Imported &cos = n.operand(2), &sin = n.operand(3);
  bool isFlat = x.getRank() == 3;
  int64_t half = cos.getRank() == 2 ? cos.getShape()[1] : 0,
          heads = n.getInt("num_heads", 0);
  if ((!isFlat && x.getRank() != 4) || half < 1 ||
      sin.getShape() != cos.getShape())
    return n.fail("RotaryEmbedding of " + toString(x.getShape()) +
                  " with tables of " + toString(cos.getShape()));
  if (n.getInt("is_packed_batching", 0) != 0 || n.getFloat("scale", 1) != 1)
    return n.fail("RotaryEmbedding of packed batches or with a scale");
  if (isFlat) {
    heads = heads > 0 ? heads : x.getShape()[2] / (2 * half);
    if (heads < 1 || x.getShape()[2] % heads != 0)
      return n.fail("RotaryEmbedding of " + toString(x.getShape()) + " with " +
                    Twine(heads) + " heads");
    x = splitHeads(n.emit, x, heads);
  }
  int64_t batch = x.getShape()[0], length = x.getShape()[2];
  if (2 * half > x.getShape()[3])
    return n.fail("RotaryEmbedding of " + Twine(2 * half) + " of " +
                  Twine(x.getShape()[3]) + " elements");
  if (countElements(positions.getShape()) == 1) {
    Shape shape = {1, length};
    positions = n.emit.broadcast(n.emit.reshape(positions, {1, 1}), shape,
                                 !positions.isConstant());
    positions = n.emit.binaryOver<graph::AddOp>(
        positions, n.emit.iota(shape, 1, positions.getElementType()));
  } else if (positions.getShape() != Shape{batch, length}) {
    return n.fail("positions of " + toString(positions.getShape()) + " for " +
                  Twine(batch) + " sequences of " + Twine(length));
  }
  Imported result =
      turnPairs(n.emit, x, rowsOf(n, 2, positions), rowsOf(n, 3, positions),
                2 * half, n.getInt("interleaved", 0) != 0);
  n.result(0, isFlat ? mergeHeads(n.emit, result) : result);
  return success();
}

constexpr StringRef domain = "com.microsoft";
const OpRow rows[] = {
    {domain, "Attention", 1, attention},
    {domain, "MultiHeadAttention", 1, multiHeadAttention},
    {domain, "GroupQueryAttention", 1, groupQueryAttention},
    {domain, "RotaryEmbedding", 1, rotaryEmbedding},
};

} // namespace

ArrayRef<OpRow> getFusedAttentionRows() { return rows; }

} // namespace polyrank::frontends::onnx
