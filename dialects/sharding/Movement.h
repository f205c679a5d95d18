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
/// The collective that devices run; nullopt for a movement that each device
/// does alone, and for a reshard, which becomes several collectives.
std::optional<runtime::CollectiveKind> getCollectiveKind(MovementKind kind);

/// The movement between an input and an output layout: the axes over which
/// devices take part, and the dims that these axes leave and enter (-1: none).
struct Movement {
  llvm::SmallVector<AxisRef> axes;
  int64_t from = -1;
  int64_t to = -1;
};
/// The movement by which an op of this kind changes `from` into `to`, or
/// nullopt if it cannot. The axes are major to minor as they leave or enter a
/// dim, and in mesh order if they leave and enter none (all_reduce, to_partial,
/// permute). For permute they are the axes of all dims that change, before and
/// after; for halo and halo_add those of the widened dim, which is both `from`
/// and `to`; for repad, fill and reshard there are none.
std::optional<Movement> getMovement(MovementKind kind, LayoutAttr from,
                                    LayoutAttr to);

/// Verifies that operands become results as the op's kind says, all over the
/// same axes and with the same reduction.
mlir::LogicalResult verifyMovement(mlir::Operation *op);

} // namespace polyrank::sharding
