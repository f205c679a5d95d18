// What the ops of the sharding dialect do to a layout.

#pragma once

#include "dialects/sharding/Layout.h"
#include "runtime/plan/Collectives.h"

#include <optional>

namespace polyrank::sharding {

/// The op's mnemonic.
inline llvm::StringRef getName(MovementKind kind) {
  return stringifyMovementKind(kind);
}
/// The collective that devices run; none where each does it alone, and for a
/// reshard, which is several others.
std::optional<runtime::CollectiveKind> getCollectiveKind(MovementKind kind);

/// What moves between an input and an output layout: the axes over which
/// devices take part, and the dims they leave and enter (-1: none).
struct Movement {
  llvm::SmallVector<AxisRef> axes;
  int64_t from = -1;
  int64_t to = -1;
};
/// What an op moves to change one layout into the other, or nothing where it
/// cannot. The axes are major to minor as they leave or enter a dim, and in
/// mesh order where none does (all_reduce, to_partial, permute). `permute`: the
/// axes of all dims that change, before and after. halo and halo_add: those of
/// the widened dim, which it enters and leaves. repad, fill and reshard: none.
std::optional<Movement> getMovement(MovementKind kind, LayoutAttr from,
                                    LayoutAttr to);

/// That operands become results as the op's kind does it, all over the same
/// axes and with the same reduction.
mlir::LogicalResult verifyMovement(mlir::Operation *op);

} // namespace polyrank::sharding
