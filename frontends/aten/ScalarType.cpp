// Which of PyTorch's element types are supported, and in which types they are
// computed.

#include "frontends/aten/ScalarType.h"

using namespace mlir;

namespace polyrank::frontends::aten {

bool isSupported(ScalarType type) {
  switch (type) {
  case ScalarType::Byte:
  case ScalarType::Char:
  case ScalarType::Short:
  case ScalarType::Int:
  case ScalarType::Long:
  case ScalarType::Half:
  case ScalarType::Float:
  case ScalarType::Double:
  case ScalarType::Bool:
  case ScalarType::BFloat16:
    return true;
  default:
    return false;
  }
}

std::optional<ScalarType> toScalarType(int64_t number) {
  auto type = static_cast<ScalarType>(number);
  if (static_cast<int64_t>(type) != number || !isSupported(type))
    return std::nullopt;
  return type;
}

std::optional<ScalarType> scalarTypeOf(StringRef name) {
  auto type = archive::scalarTypeOf(name);
  return type && isSupported(*type) ? type : std::nullopt;
}

bool isFloat(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::Float ||
         type == ScalarType::Double || type == ScalarType::BFloat16;
}

bool isComplex(ScalarType type) {
  return type == ScalarType::ComplexFloat || type == ScalarType::ComplexDouble;
}

Type toElementType(MLIRContext *context, ScalarType type) {
  if (isFloat(type))
    return Float32Type::get(context);
  if (type == ScalarType::Bool)
    return IntegerType::get(context, 1);
  return IntegerType::get(context, type == ScalarType::Long ? 64 : 32);
}

Type toKnownType(MLIRContext *context, ScalarType type) {
  switch (type) {
  case ScalarType::Double:
    return Float64Type::get(context);
  case ScalarType::Half:
    return Float16Type::get(context);
  case ScalarType::BFloat16:
    return BFloat16Type::get(context);
  default:
    return toElementType(context, type);
  }
}

Type toStoredType(MLIRContext *context, ScalarType type) {
  if (type == ScalarType::Byte || type == ScalarType::Short)
    return {};
  if (type == ScalarType::Char)
    return IntegerType::get(context, 8);
  return toKnownType(context, type);
}

IntegerType toHeldType(MLIRContext *context, ScalarType type) {
  switch (type) {
  case ScalarType::Byte:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case ScalarType::Char:
    return IntegerType::get(context, 8, IntegerType::Signed);
  case ScalarType::Short:
    return IntegerType::get(context, 16, IntegerType::Signed);
  default:
    return {};
  }
}

} // namespace polyrank::frontends::aten
