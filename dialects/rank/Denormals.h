// What devices compute with denormal numbers: those below the least normal one,
// 1.2e-38 in float32.

#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace polyrank::rank {

/// Module attribute (StringAttr): "flush" or "keep".
inline constexpr llvm::StringLiteral denormalsAttrName = "rank.denormals";

/// Flush: devices take denormal numbers for zero. Keep: they compute with them,
/// which can be many times slower. Evaluations are exact and know no such
/// difference.
enum class Denormals { Flush, Keep };

/// A module without the attribute flushes them.
Denormals getDenormals(mlir::ModuleOp module);
void setDenormals(mlir::ModuleOp module, Denormals denormals);

/// Returns true for a value that the module attribute may have.
bool isDenormals(mlir::Attribute attribute);

} // namespace polyrank::rank
