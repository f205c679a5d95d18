// Scaled dot-product attention.

#pragma once

#include <optional>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Each head (dim 1 of [batch, heads, length, width]) of key or value serves a
/// group of query heads, of which there are `heads`.
Imported repeatHeads(Emitter &emit, const Imported &x, int64_t heads);

/// [batch, length, heads * width] as [batch, heads, length, width], and back.
Imported splitHeads(Emitter &emit, const Imported &x, int64_t heads);
Imported mergeHeads(Emitter &emit, const Imported &x);

/// Turns pairs of the first `width` elements of the last dim of x [batch,
/// heads, length, elements] (Su et al. 2021): its two halves, or neighbours
/// where they are `interleaved`. cos and sin are [batch or 1, 1, length, width
/// / 2].
Imported turnPairs(Emitter &emit, const Imported &x, const Imported &cos,
                   const Imported &sin, int64_t width, bool interleaved);

/// [queries, keys]: true where key j may be seen by query i, j <= i + `past`,
/// and where a `window` is given, j > i + past - window.
Imported visibleBefore(Emitter &emit, int64_t queries, int64_t keys,
                       int64_t past,
                       std::optional<int64_t> window = std::nullopt);

/// What an attention computes on its way, each [batch, heads, queries, keys].
struct AttentionScores {
  Imported products;      // query key' * scale
  Imported capped;        // under the soft cap, before the mask
  Imported probabilities; // before `drop`
};

/// softmax(query key' * scale + mask) value. query [batch, heads, queries,
/// width], key and value with as many heads or a divisor of them. A mask
/// broadcasts to [batch, heads, queries, keys]: booleans are true where a key
/// is visible, floats are added to the scores; it may be empty. `scale` is 1 /
/// sqrt(width) where none is given. With `causal` no key is visible that comes
/// behind the query, both counted from the first. `drop`, where it is given, is
/// applied to the probabilities. With a `softcap` that is not 0 the products s
/// become softcap * tanh(s / softcap) before the mask. What `scores` points to,
/// where it is given, is filled in.
mlir::FailureOr<Imported>
attentionOf(Emitter &emit, const Imported &query, Imported key, Imported value,
            Imported mask, std::optional<double> scale, bool causal,
            llvm::function_ref<Imported(Imported)> drop = nullptr,
            double softcap = 0, AttentionScores *scores = nullptr);

} // namespace polyrank::frontends
