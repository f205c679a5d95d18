// Scaled dot-product attention.

#pragma once

#include <optional>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Repeats the heads (dim 1 of [batch, heads, length, width]) of a key or
/// value, so that there are `heads` of them: each serves a group of query
/// heads.
Imported repeatHeads(Emitter &emit, const Imported &x, int64_t heads);

/// Reshapes [batch, length, heads * width] to [batch, heads, length, width],
/// and back.
Imported splitHeads(Emitter &emit, const Imported &x, int64_t heads);
Imported mergeHeads(Emitter &emit, const Imported &x);

/// Rotary position embedding (Su et al. 2021): rotates pairs of the first
/// `width` elements of the last dim of x [batch, heads, length, elements]. A
/// pair is an element of each half or, if `interleaved`, two neighbours. cos
/// and sin are [batch or 1, 1, length, width / 2].
Imported turnPairs(Emitter &emit, const Imported &x, const Imported &cos,
                   const Imported &sin, int64_t width, bool interleaved);

/// A causal mask [queries, keys]: true where query i may see key j, that is j
/// <= i + `past` and, if a `window` is given, j > i + past - window.
Imported visibleBefore(Emitter &emit, int64_t queries, int64_t keys,
                       int64_t past,
                       std::optional<int64_t> window = std::nullopt);

/// Intermediate values of an attention, each [batch, heads, queries, keys].
struct AttentionScores {
  Imported products;      // query key' * scale
  Imported capped;        // after the soft cap, before the mask
  Imported probabilities; // before `drop`
};

/// softmax(query key' * scale + mask) value. query is [batch, heads, queries,
/// width]; key and value have as many heads or a divisor of them. The mask
/// broadcasts to [batch, heads, queries, keys] and may be empty: booleans are
/// true where a key is visible, floats are added to the scores. `scale`
/// defaults to 1 / sqrt(width). With `causal` a query sees no key after it,
/// both counted from the first. `drop`, if given, is applied to the
/// probabilities. With a `softcap` other than 0 the products s become softcap *
/// tanh(s / softcap) before the mask. `scores`, if not null, receives the
/// intermediate values.
mlir::FailureOr<Imported>
attentionOf(Emitter &emit, const Imported &query, Imported key, Imported value,
            Imported mask, std::optional<double> scale, bool causal,
            llvm::function_ref<Imported(Imported)> drop = nullptr,
            double softcap = 0, AttentionScores *scores = nullptr);

} // namespace polyrank::frontends
