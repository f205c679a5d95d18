// Which of PyTorch's element types are supported.

#pragma once

#include <cstdint>
#include <optional>

#include "frontends/import/ElementTypes.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::aten {

/// Returns true if a tensor may have the type. Complex numbers, quantised
/// types, 8-bit floats and unsigned integers of more than 8 bits are not
/// supported.
bool isSupported(ElementType type);
/// The type with c10's `number`; nullopt if it is not supported.
std::optional<ElementType> supportedType(int64_t number);
/// The supported type that NumPy and `--input` call `name`: "float32", "bool".
std::optional<ElementType> supportedType(llvm::StringRef name);
/// True for complex64 and complex128, which constants may have: see Complex.h.
bool isComplex(ElementType type);

} // namespace polyrank::frontends::aten
