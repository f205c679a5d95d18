// Which of PyTorch's element types are supported, and how they are computed.

#pragma once

#include <cstdint>
#include <optional>

#include "frontends/archive/ScalarType.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::aten {

using archive::ScalarType;

/// Whether a tensor here may have the type: not complex, quantised, 8-bit
/// floats and unsigned integers of more than 8 bits.
bool isSupported(ScalarType type);
/// The type of c10's `number`; nullopt for one that is not supported.
std::optional<ScalarType> toScalarType(int64_t number);
/// The supported type that NumPy and `--input` call so: "float32", "bool".
std::optional<ScalarType> scalarTypeOf(llvm::StringRef name);
bool isFloat(ScalarType type);
/// Whether it is complex64 or complex128: constants may be, see Complex.h.
bool isComplex(ScalarType type);

/// The element type in which values are computed: float32 for every float, i1,
/// and i32 or i64 for integers, which holds those of the narrower types
/// exactly.
mlir::Type toElementType(mlir::MLIRContext *context, ScalarType type);
/// That of tensors whose elements are known now: floats of their own width.
mlir::Type toKnownType(mlir::MLIRContext *context, ScalarType type);
/// As a parameter is stored; null where none can be (uint8, int16).
mlir::Type toStoredType(mlir::MLIRContext *context, ScalarType type);
/// The width and sign to which integers are held that are computed in a wider
/// type (uint8, int8, int16); null for others. See `Imported::held`.
mlir::IntegerType toHeldType(mlir::MLIRContext *context, ScalarType type);

} // namespace polyrank::frontends::aten
