// The element types of ONNX.

#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

std::string nameOf(DataType type) {
  switch (type) {
  case DataType::Float:
    return "float32";
  case DataType::Uint8:
    return "uint8";
  case DataType::Int8:
    return "int8";
  case DataType::Uint16:
    return "uint16";
  case DataType::Int16:
    return "int16";
  case DataType::Int32:
    return "int32";
  case DataType::Int64:
    return "int64";
  case DataType::String:
    return "string";
  case DataType::Bool:
    return "bool";
  case DataType::Float16:
    return "float16";
  case DataType::Double:
    return "float64";
  case DataType::Uint32:
    return "uint32";
  case DataType::Uint64:
    return "uint64";
  case DataType::BFloat16:
    return "bfloat16";
  default:
    break;
  }
  // Types that are not of whole bytes, or that nothing here computes with.
  constexpr std::pair<int32_t, const char *> others[] = {
      {0, "undefined"},       {14, "complex64"},      {15, "complex128"},
      {17, "float8e4m3fn"},   {18, "float8e4m3fnuz"}, {19, "float8e5m2"},
      {20, "float8e5m2fnuz"}, {21, "uint4"},          {22, "int4"},
      {23, "float4e2m1"},     {24, "float8e8m0"}};
  for (auto [number, name] : others)
    if (number == static_cast<int32_t>(type))
      return name;
  return "type " + std::to_string(static_cast<int32_t>(type));
}

unsigned byteSize(DataType type) {
  switch (type) {
  case DataType::Uint8:
  case DataType::Int8:
  case DataType::Bool:
    return 1;
  case DataType::Uint16:
  case DataType::Int16:
  case DataType::Float16:
  case DataType::BFloat16:
    return 2;
  case DataType::Float:
  case DataType::Int32:
  case DataType::Uint32:
    return 4;
  case DataType::Double:
  case DataType::Int64:
  case DataType::Uint64:
    return 8;
  default:
    return 0;
  }
}

} // namespace polyrank::frontends::onnx
