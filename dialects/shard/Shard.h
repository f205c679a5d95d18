// The shard dialect: layouts and the ops that change them.

#pragma once

#include "dialects/shard/Layout.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/shard/ShardOps.h.inc"

namespace polyrank::shard {

/// What a collective moves between an input and an output layout: the axes
/// over which devices take part, and the dims they leave and enter (-1: none).
struct Movement {
  llvm::SmallVector<AxisRef> axes;
  int64_t from = -1;
  int64_t to = -1;
};
/// What the op named `mnemonic` moves to change one layout into the other, or
/// nothing where it cannot. The axes are major to minor as they leave or enter a
/// dim, and in mesh order where none does (all_reduce, to_partial, permute).
/// `permute`: the axes of all dims that change, before and after. halo and
/// halo_add: those of the widened dim, which it enters and leaves. repad, fill
/// and reshard: none.
std::optional<Movement> getMovement(llvm::StringRef mnemonic, LayoutAttr from,
                                    LayoutAttr to);

/// What to_partial leaves of a dim: the devices that do not keep the value hold
/// the identity everywhere, so padding holds what it held only where that is
/// the identity.
DimAttr getPartialDim(DimAttr dim, MeshAttr mesh, ReductionKind kind);

} // namespace polyrank::shard
