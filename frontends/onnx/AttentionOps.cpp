// Imports attention and rotary position embeddings.

#include <limits>

#include "frontends/emit/Attention.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// The keys that a query sees, and what is added to its scores.
struct Mask {
  Imported visible; // booleans; may be empty
  Imported added;   // floats; may be empty
  /// True where a query [.., queries, 1] sees any key, according to `added`;
  /// empty if all queries are known to.
  Imported seesSome;
};

Imported minusInfinityLike(Emitter &emit, const Imported &x) {
  return emit.broadcast(
      emit.scalar(Float32Type::get(emit.getBuilder().getContext()),
                  -std::numeric_limits<double>::infinity()),
      x.getShape(), !x.isConstant());
}

/// A query whose keys all have -inf gives 0, but its softmax would be NaN:
/// there the added values become 0, and the results are zeroed later.
void seeSome(Emitter &emit, Mask &mask) {
  int64_t keys = mask.added.getRank() - 1;
  Imported most = emit.reduce(sharding::ReductionKind::Max, mask.added, {keys});
  most = emit.keepDims(most, mask.added.getShape(), {keys});
  Imported sees = emit.binary<graph::CompareOp>(
      most, minusInfinityLike(emit, most), graph::Comparison::GT);
  if (sees.isConstant() &&
      llvm::all_of(llvm::seq<int64_t>(0, sees.constant->size()),
                   [&](int64_t i) { return sees.constant->at(i) != 0; }))
    return;
  mask.seesSome = sees;
}

/// `x`, with 0 for queries that see no key.
Imported zeroUnseeing(Emitter &emit, const Mask &mask, const Imported &x,
                      const Shape &shape) {
  auto spread = [&](const Imported &y) {
    return emit.broadcast(y, shape, !y.isConstant());
  };
  return emit.select(spread(mask.seesSome), spread(x),
                     spread(emit.scalar(x.getElementType(), 0)));
}

/// The number of queries and keys, the number of keys before the first query,
/// and how many keys a query sees before and after its own position (-1: all).
struct Places {
  int64_t batch, queries, keys, past;
  int64_t left = -1, right = -1;
};

/// A mask [batch or 1, 1, queries, keys] of the keys that a query sees by
/// position; empty if it sees all. The samples may have lengths of their own
/// (operand 6), and then the queries are the last positions of each.
FailureOr<Imported> visibleByPlace(NodeImporter &n, const Places &places,
                                   bool isCausal) {
  Emitter &emit = n.emit;
  Type integer = emit.getBuilder().getI64Type();
  Imported visible, key = emit.iota({1, 1, 1, places.keys}, 3, integer);
  auto demand = [&](const Imported &a, graph::Comparison kind,
                    const Imported &b) {
    auto both = emit.broadcastAll({a, b});
    Imported holds =
        emit.binary<graph::CompareOp>((*both)[0], (*both)[1], kind);
    if (!visible) {
      visible = holds;
      return;
    }
    auto all = emit.broadcastAll({visible, holds});
    visible = emit.binary<graph::AndOp>((*all)[0], (*all)[1]);
  };
  Imported offset =
      emit.reshape(emit.scalar(integer, places.past), {1, 1, 1, 1});
  if (n.has(6)) {
    if (n.operand(6).getShape() != Shape{places.batch})
      return n.fail("lengths of keys of " + toString(n.operand(6).getShape()) +
                    " for a batch of " + Twine(places.batch));
    Imported lengths = emit.reshape(emit.convert(n.operand(6), integer),
                                    {places.batch, 1, 1, 1});
    demand(key, graph::Comparison::LT, lengths);
    offset = emit.binaryOver<graph::SubOp>(
        lengths, emit.scalar(integer, places.queries));
  }
  Imported query = emit.iota({1, 1, places.queries, 1}, 2, integer);
  auto placed = emit.broadcastAll({query, offset});
  Imported own = emit.binary<graph::AddOp>((*placed)[0], (*placed)[1]);
  auto from = [&](int64_t distance) {
    return emit.binaryOver<graph::AddOp>(own, emit.scalar(integer, distance));
  };
  if (isCausal)
    demand(key, graph::Comparison::LE, from(0));
  if (places.left >= 0)
    demand(key, graph::Comparison::GE, from(-places.left));
  if (places.right >= 0)
    demand(key, graph::Comparison::LE, from(places.right));
  return visible;
}

/// Pads a mask for fewer keys, so that the other keys are hidden.
Imported padMask(Emitter &emit, const Imported &mask, int64_t keys) {
  Shape rest = mask.getShape();
  if (rest.empty() || rest.back() == 1 || rest.back() >= keys)
    return mask;
  rest.back() = keys - rest.back();
  bool isAdded = isa<FloatType>(mask.getElementType());
  Imported hides = emit.broadcast(
      emit.scalar(mask.getElementType(),
                  isAdded ? -std::numeric_limits<double>::infinity() : 0),
      rest, !mask.isConstant());
  return emit.concat({mask, hides}, mask.getRank() - 1);
}

/// Combines operand 3, the positions and `is_causal`, which becomes false if
/// the mask includes it.
FailureOr<Mask> readMask(NodeImporter &n, const Places &places,
                         bool &isCausal) {
  auto [batch, queries, keys, past, left, right] = places;
  Mask mask;
  if (n.has(3)) {
    Imported given = padMask(n.emit, n.operand(3), keys);
    (given.getElementType().isInteger(1) ? mask.visible : mask.added) = given;
  }
  if (n.has(6) || left >= 0 || right >= 0) {
    // A query may see no key at all, which `seeSome` handles.
    auto visible = visibleByPlace(n, places, isCausal);
    if (failed(visible))
      return failure();
    auto hide = [&](const Imported &sees, const Imported &x) {
      auto both = n.emit.broadcastAll({sees, x});
      return failed(both)
                 ? FailureOr<Imported>()
                 : n.emit.select((*both)[0], (*both)[1],
                                 minusInfinityLike(n.emit, (*both)[1]));
    };
    FailureOr<Imported> added =
        mask.added ? mask.added
                   : n.emit.scalar(
                         Float32Type::get(n.emit.getBuilder().getContext()), 0);
    if (mask.visible)
      added = hide(mask.visible, *added);
    if (succeeded(added))
      added = hide(*visible, *added);
    if (failed(added))
      return n.fail("its mask of " + toString(n.operand(3).getShape()) +
                    " does not fit " + Twine(queries) + " queries of " +
                    Twine(keys) + " keys");
    mask = {{}, *added, {}};
    isCausal = false;
  }
  if (isCausal && (past > 0 || mask.added)) {
    Imported visible = visibleBefore(n.emit, queries, keys, past);
    const Imported &given = mask.added ? mask.added : mask.visible;
    if (given) {
      auto both = n.emit.broadcastAll({given, visible});
      if (failed(both))
        return n.fail("its mask of " + toString(given.getShape()) +
                      " does not fit " + toString(visible.getShape()));
      if (mask.added)
        mask.added = n.emit.select((*both)[1], (*both)[0],
                                   minusInfinityLike(n.emit, (*both)[0]));
      else
        mask.visible = n.emit.binary<graph::AndOp>((*both)[0], (*both)[1]);
    } else {
      mask.visible = visible;
    }
    isCausal = false;
  }
  if (mask.added && mask.added.getRank() > 0)
    seeSome(n.emit, mask);
  return mask;
}

/// The scores that `qk_matmul_output_mode` selects.
LogicalResult giveScores(NodeImporter &n, const AttentionScores &scores,
                         const Mask &mask, bool isCausal) {
  Shape shape = scores.products.getShape();
  auto spread = [&](const Imported &x) {
    return n.emit.broadcast(x, shape, !x.isConstant());
  };
  int64_t mode = n.getInt("qk_matmul_output_mode", 0);
  Imported result;
  switch (mode) {
  case 0:
    result = scores.products;
    break;
  case 1:
    result = scores.capped;
    break;
  case 2: {
    result = scores.capped;
    if (mask.added)
      result = n.emit.binary<graph::AddOp>(result, spread(mask.added));
    SmallVector<Imported> hides;
    if (mask.visible)
      hides.push_back(mask.visible);
    if (isCausal)
      hides.push_back(visibleBefore(n.emit, shape[2], shape[3], 0));
    for (const Imported &visible : hides)
      result = n.emit.select(spread(visible), result,
                             minusInfinityLike(n.emit, result));
    break;
  }
  case 3:
    result = mask.seesSome
                 ? zeroUnseeing(n.emit, mask, scores.probabilities, shape)
                 : scores.probabilities;
    break;
  default:
    return n.fail("qk_matmul_output_mode " + Twine(mode) +
                  ", which is none of 0, 1, 2 and 3");
  }
  n.result(3, result);
  return success();
}

/// query is [batch, heads, queries, width]; key and value have as many heads or
/// a divisor of them. Or all are 3-d, with the heads merged into the last dim.
/// A boolean mask is true where a key is visible; others are added to the
/// scores. The order of soft cap and mask is that to which ONNX 1.23 corrected
/// the text of opset 23, and so is the position of the queries, after the valid
/// keys of a sample.
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
  if (n.has(6) && (n.since < 24 || n.has(4)))
    return n.fail("Attention with lengths of keys and a cache of them");
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
  bool isCausal = n.getInt("is_causal", 0) != 0;
  Places places = {query.getShape()[0], query.getShape()[2], key.getShape()[2],
                   past};
  if (n.since >= 25) {
    places.left = n.getInt("left_window_size", -1);
    places.right = n.getInt("right_window_size", -1);
  }
  auto mask = readMask(n, places, isCausal);
  if (failed(mask))
    return failure();
  Imported given = mask->added ? mask->added : mask->visible;
  if (mask->seesSome)
    given = zeroUnseeing(n.emit, *mask, given, given.getShape());
  AttentionScores scores;
  auto result = attentionOf(n.emit, query, key, value, given,
                            n.attribute("scale")
                                ? std::optional<double>(n.getFloat("scale", 0))
                                : std::nullopt,
                            isCausal, nullptr, n.getFloat("softcap", 0),
                            n.wants(3) ? &scores : nullptr);
  if (failed(result) ||
      (n.wants(3) && failed(giveScores(n, scores, *mask, isCausal))))
    return failure();
  if (mask->seesSome)
    result = zeroUnseeing(n.emit, *mask, *result, result->getShape());
  n.result(0, isFlat ? mergeHeads(n.emit, *result) : *result);
  return success();
}

/// See `turnPairs`. cos and sin have a row per position, selected by the
/// position ids if given, else a row per index in the sequence.
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
    {"", "Attention", 24, attention}, // lengths of keys were added
    {"", "Attention", 25, attention}, // windows were added
    {"", "RotaryEmbedding", 23, rotaryEmbedding},
};

} // namespace

ArrayRef<OpRow> getAttentionRows() { return rows; }

} // namespace polyrank::frontends::onnx
