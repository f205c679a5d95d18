// Scaled dot-product attention.

#pragma once

#include <optional>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Each head (dim 1 of [batch, heads, length, width]) of key or value serves a
/// group of query heads, of which there are `heads`.
Imported repeatHeads(Emitter &emit, const Imported &x, int64_t heads);

/// softmax(query key' * scale + mask) value. query [batch, heads, queries,
/// width], key and value with as many heads or a divisor of them. A mask
/// broadcasts to [batch, heads, queries, keys]: booleans are true where a key
/// is visible, floats are added to the scores; it may be empty. `scale` is 1 /
/// sqrt(width) where none is given. With `causal` no key is visible that comes
/// behind the query, both counted from the first. `drop`, where it is given, is
/// applied to the probabilities.
mlir::FailureOr<Imported>
attentionOf(Emitter &emit, const Imported &query, Imported key, Imported value,
            Imported mask, std::optional<double> scale, bool causal,
            llvm::function_ref<Imported(Imported)> drop = nullptr);

} // namespace polyrank::frontends
