// Element types in MLIR's words.

#pragma once

#include <optional>

#include "mlir/IR/BuiltinTypes.h"
#include "support/ElementType.h"

namespace polyrank::graph {

/// The element type of tensors of a program: f32, i64, i1 for BOOL, ui8 for U8.
/// Null for types that no program has.
mlir::Type toMlirType(mlir::MLIRContext *context, ElementType type);

/// The inverse of `toMlirType`, also for signed integers; nullopt for types
/// that no program has.
std::optional<ElementType> toElementType(mlir::Type type);

/// The type of losses, counts, norms and other statistics of a step: f32.
mlir::FloatType statisticType(mlir::MLIRContext *context);

/// The type in which sums of elements of `type` are formed: f32 for bf16.
mlir::Type accumulatorOf(mlir::Type type);

/// Returns true for bf16 and f16: floats that are stored, but computed with in
/// the type of their accumulator and then rounded.
bool isNarrow(mlir::Type type);

} // namespace polyrank::graph
