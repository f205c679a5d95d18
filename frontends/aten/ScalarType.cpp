// PyTorch's element types.

#include "frontends/aten/ScalarType.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::aten {

std::optional<ScalarType> toScalarType(int64_t number) {
  auto type = static_cast<ScalarType>(number);
  if (number < 0 || number > 15 || nameOf(type).empty())
    return std::nullopt;
  return type;
}

StringRef nameOf(ScalarType type) {
  switch (type) {
  case ScalarType::Byte:
    return "uint8";
  case ScalarType::Char:
    return "int8";
  case ScalarType::Short:
    return "int16";
  case ScalarType::Int:
    return "int32";
  case ScalarType::Long:
    return "int64";
  case ScalarType::Half:
    return "float16";
  case ScalarType::Float:
    return "float32";
  case ScalarType::Double:
    return "float64";
  case ScalarType::Bool:
    return "bool";
  case ScalarType::BFloat16:
    return "bfloat16";
  }
  return "";
}

std::optional<ScalarType> scalarTypeOf(StringRef name) {
  for (int64_t number = 0; number <= 15; ++number)
    if (auto type = toScalarType(number); type && nameOf(*type) == name)
      return type;
  return std::nullopt;
}

bool isFloat(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::Float ||
         type == ScalarType::Double || type == ScalarType::BFloat16;
}

int64_t byteSize(ScalarType type) {
  switch (type) {
  case ScalarType::Byte:
  case ScalarType::Char:
  case ScalarType::Bool:
    return 1;
  case ScalarType::Short:
  case ScalarType::Half:
  case ScalarType::BFloat16:
    return 2;
  case ScalarType::Int:
  case ScalarType::Float:
    return 4;
  case ScalarType::Long:
  case ScalarType::Double:
    return 8;
  }
  llvm_unreachable("covered switch");
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
