// The element types in which an imported model is computed: one decision for
// all formats.

#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "support/ElementType.h"

namespace polyrank::frontends {

/// The type in which tensors of `type` are computed: float32 for every float,
/// i1 for bool, and i32 or i64 for integers, which hold the narrower types
/// exactly; uint64 is computed as the bits of an i64. Null if the import does
/// not support the type. The pass that lowers precision may change it later;
/// parameters keep the type of the file (`storedType`).
mlir::Type computedType(mlir::MLIRContext *context, ElementType type);

/// The type of a tensor whose elements are known at import: floats keep the
/// type of the file, so that results are rounded as in the model's own
/// arithmetic. The emitter converts them to `computedType` when they are
/// combined with a value. Null if the import does not support the type.
mlir::Type knownType(mlir::MLIRContext *context, ElementType type);

/// The type in which a parameter is stored; null for types that no parameter
/// can have (uint8, int16).
mlir::Type storedType(mlir::MLIRContext *context, ElementType type);

/// The width and sign to which integers of the file wrap while they are
/// computed in a wider type, and those of uint64; null for types that need no
/// wrapping. See `Imported::held`.
mlir::IntegerType heldType(mlir::MLIRContext *context, ElementType type);

} // namespace polyrank::frontends
