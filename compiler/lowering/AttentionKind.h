// The choice between attention as one call and its parts.

#pragma once

namespace polyrank::lowering {

/// How attention is computed: as the target says is faster, by one call, or by
/// products and kernels.
enum class AttentionKind { Auto, Fused, Parts };

} // namespace polyrank::lowering
