// The sharding dialect: layouts and the ops that change them.

#pragma once

#include "dialects/sharding/Layout.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/sharding/Movement.h"

#include "dialects/sharding/MovementInterface.h.inc"

#define GET_OP_CLASSES
#include "dialects/sharding/ShardingOps.h.inc"

namespace polyrank::sharding {

/// The dim's layout after to_partial. The devices that do not keep the value
/// hold the identity everywhere, so the padding keeps its fill only if that is
/// the identity.
DimAttr getPartialDim(DimAttr dim, MeshAttr mesh, ReductionKind kind);

} // namespace polyrank::sharding
