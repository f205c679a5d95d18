// PyTorch's element types.

#pragma once

#include <cstdint>
#include <optional>

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::aten {

/// c10::ScalarType with its numbers, which TorchScript writes as plain
/// integers. (The JSON of `.pt2` files counts otherwise; its reader converts.)
/// Types that no tensor here may have (complex, quantised, 8-bit floats) have
/// no name.
enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  Bool = 11,
  BFloat16 = 15,
};

/// The type of c10's `number`; nullopt for one that is not supported.
std::optional<ScalarType> toScalarType(int64_t number);
/// As NumPy and `--input` call it: "float32", "int64", "bool".
llvm::StringRef nameOf(ScalarType type);
/// The inverse of `nameOf`.
std::optional<ScalarType> scalarTypeOf(llvm::StringRef name);
bool isFloat(ScalarType type);
/// Bytes of one element in a file.
int64_t byteSize(ScalarType type);

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
