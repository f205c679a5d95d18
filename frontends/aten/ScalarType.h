// Which of PyTorch's element types are supported, and in which types they are
// computed.

#pragma once

#include <cstdint>
#include <optional>

#include "frontends/archive/ScalarType.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::aten {

using archive::ScalarType;

/// Returns true if a tensor may have the type. Complex numbers, quantised
/// types, 8-bit floats and unsigned integers of more than 8 bits are not
/// supported.
bool isSupported(ScalarType type);
/// The type with c10's `number`; nullopt if it is not supported.
std::optional<ScalarType> toScalarType(int64_t number);
/// The supported type that NumPy and `--input` call `name`: "float32", "bool".
std::optional<ScalarType> scalarTypeOf(llvm::StringRef name);
bool isFloat(ScalarType type);
/// True for complex64 and complex128, which constants may have: see Complex.h.
bool isComplex(ScalarType type);

/// The element type in which values are computed: float32 for every float, i1
/// for bool, and i32 or i64 for integers, which hold the narrower types
/// exactly.
mlir::Type toElementType(mlir::MLIRContext *context, ScalarType type);
/// The element type of tensors whose elements are known: floats keep their
/// width.
mlir::Type toKnownType(mlir::MLIRContext *context, ScalarType type);
/// The element type in which a parameter is stored; null for types that no
/// parameter can have (uint8, int16).
mlir::Type toStoredType(mlir::MLIRContext *context, ScalarType type);
/// The width and sign to which integers wrap that are computed in a wider type
/// (uint8, int8, int16); null for other types. See `Imported::held`.
mlir::IntegerType toHeldType(mlir::MLIRContext *context, ScalarType type);

} // namespace polyrank::frontends::aten
